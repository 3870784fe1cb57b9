"""TLS in front of a unix socket, as a proxy on the daemon's host does it."""

import asyncio
import ssl
import subprocess
import threading


def make_identity(directory, host):
    """A certificate for ``host`` that is its own authority: the paths of certificate and key."""
    certificate, key = f"{directory}/certificate.pem", f"{directory}/key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "1", "-subj", f"/CN={host}", "-keyout", key, "-out", certificate),
            *("-addext", f"subjectAltName=DNS:{host}"),
        ],
        check=True,
        stderr=subprocess.PIPE,
    )
    return certificate, key


class TlsRelay:
    """Listens on 127.0.0.1 and passes what it decrypts on to the socket, and back."""

    def __init__(self, socket_path, certificate, key):
        self.socket_path = socket_path
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.set_alpn_protocols(["h2"])
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(
            asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        )
        self.port = self.server.sockets[0].getsockname()[1]
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    async def serve(self, reader, writer):
        inner_reader, inner_writer = await asyncio.open_unix_connection(self.socket_path)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.server.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


async def pump(reader, writer):
    try:
        while True:
            data = await reader.read(1 << 16)
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # one side has hung up, so the other is told to
    finally:
        writer.close()
