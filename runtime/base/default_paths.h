// Where daemon and clients meet when nobody said otherwise. One rule, used by both sides.
#pragma once

#include <string>
#include <vector>

namespace hone {

// The endpoint clients connect to: $HONE_ENDPOINT when set and not empty, else the first of
// DefaultSocketPaths() at which a socket exists, else the first of them; as "unix:PATH".
std::string DefaultEndpoint();

// What clients of a HOST:PORT endpoint take for the file with the daemon's certificate authority
// when nobody named one: $HONE_TLS_CA_FILE; empty when it is not set: plain text.
std::string DefaultTlsCaFile();

// Sockets of a daemon, in the order clients look: $XDG_RUNTIME_DIR/hone/honed.sock (when the
// variable is set), /run/hone/honed.sock (a system daemon), /tmp/hone-<uid>/honed.sock.
std::vector<std::string> DefaultSocketPaths();

// The socket a daemon listens on by default: the first of DefaultSocketPaths() whose directory, or
// else that directory's parent, this process may write to. /tmp/hone-<uid> always qualifies; who
// creates it must make it 0700.
std::string DefaultListenSocketPath();

}  // namespace hone
