// What a process has launched, recorded as problems to tune (see hone/v1/capture.proto).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/capture_options.h"

namespace hone {

// Thread-safe. No thread waits here for another's writing: one writes, the others leave it to it.
// What goes wrong ends the recording, is told once on standard error and by Status, and is nobody's
// error. A forked child records into a file of its own.
class LaunchCapture {
 public:
  // The process's one for this directory, made by the first who asks; lives as long as the process.
  // nullptr: nothing is to be recorded.
  static LaunchCapture* For(const CaptureOptions& options);

  // Whether contents are to be stored.
  bool with_contents() const { return options_.contents; }

  // True: `key` is new, and the caller describes it with Count after it has stored its contents,
  // or calls GiveUp. Launches of the key by other threads are counted meanwhile.
  bool Claim(const std::string& key);
  void GiveUp(const std::string& key);
  // One launch, now. `describe` is asked when the key is new or `claimed` by this thread: for the
  // fields of a CapturedProblem besides launches and times, in protobuf's text format on one line.
  // It is text so that a forked child needs nothing of protobuf's that its parent had locked.
  // False: the problem is not recorded.
  bool Count(const std::string& key, bool claimed, absl::FunctionRef<std::string()> describe);

  // Bytes of a buffer into a file of its own; returns the file's name. RESOURCE_EXHAUSTED when they
  // are more than may still be written; the recording goes on then.
  absl::StatusOr<std::string> StoreContents(absl::string_view buffer, absl::string_view bytes);
  void DropContents(const std::string& file, int64_t bytes);
  // As StoreContents' error, before the bytes are fetched.
  absl::Status FitsContents(int64_t bytes);

  // Ends the recording.
  void Stop(absl::string_view reason);
  // Writes the counts. May wait for another thread's writing, but not for long.
  void Flush();
  // "recording into FILE: 12 problems", "full: ...", "stopped: ...": for people.
  std::string Status();

 private:
  class Recording;

  explicit LaunchCapture(const CaptureOptions& options) : options_(options) {}
  // This process's part, made anew in a forked child: its parent's may be locked for ever.
  Recording& Here();
  static void FlushAll();

  // All that there are. A list that is only added to, without a lock: a child may be forked while a
  // thread adds.
  static std::atomic<LaunchCapture*> first_;
  LaunchCapture* next_ = nullptr;  // made before this one

  const CaptureOptions options_;
  std::atomic<Recording*> recording_{nullptr};
};

}  // namespace hone
