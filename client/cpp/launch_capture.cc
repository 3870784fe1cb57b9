#include "client/cpp/launch_capture.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/capture_file.h"
#include "runtime/base/files.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Between two writings of counts, and of one thread's time at most this share.
constexpr int64_t kFlushIntervalMs = 5'000;
constexpr int64_t kFlushShare = 100;
// "problem { launches: ... }" with the largest numbers.
constexpr int64_t kCountsBytes = 128;
// What a closing client waits for a thread that writes; a disk may hang.
constexpr absl::Duration kFlushWait = absl::Seconds(1);

int64_t NowUnixMs() {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1'000'000;
}

std::string Header() {
  return absl::StrCat("# launches of pid ", ::getpid(), ", ", absl::CHexEscape(ExecutablePath()),
                      "; fields: hone/v1/capture.proto; to tune them: hone tune --from FILE\n");
}

}  // namespace

// One process's problems and their file.
class LaunchCapture::Recording {
 public:
  explicit Recording(const CaptureOptions& options) : options_(options) {
    if (!options.problem.ok()) Stop(options.problem.message());
  }

  pid_t pid() const { return pid_; }

  bool Claim(const std::string& key) {
    MutexLock lock(&mutex_);
    return phase_ == Phase::kRecording && entries_.try_emplace(key).second;
  }

  void GiveUp(const std::string& key) {
    MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.text.empty()) entries_.erase(found);
  }

  bool Count(const std::string& key, bool claimed, absl::FunctionRef<std::string()> describe) {
    const int64_t now = NowUnixMs();
    bool is_new = claimed;
    {
      MutexLock lock(&mutex_);
      if (phase_ == Phase::kStopped) return false;
      const auto found = entries_.find(key);
      if (found == entries_.end()) {
        if (phase_ == Phase::kFull) return false;
        is_new = true;
      } else if (!is_new) {
        found->second.Count(now);
        counted_ = true;
      }
    }
    if (!is_new) {
      FlushIfDue(now);
      return true;
    }
    const std::string text = describe();
    {
      MutexLock lock(&mutex_);
      Entry& entry = entries_[key];
      entry.Count(now);
      counted_ |= entry.launches > 1;
      if (entry.text.empty() && !Publish(text, entry)) {
        entries_.erase(key);
        return false;
      }
    }
    WriteNew();
    return true;
  }

  absl::StatusOr<std::string> StoreContents(absl::string_view buffer, absl::string_view bytes) {
    std::string label;
    {
      MutexLock lock(&mutex_);
      HONE_RETURN_IF_ERROR(Fits(static_cast<int64_t>(bytes.size())));
      if (!Open()) return absl::FailedPreconditionError(reason_);
      label = absl::StrCat(++contents_files_, ".");
      bytes_ += static_cast<int64_t>(bytes.size());
    }
    // The names of buffers are the daemon's word.
    for (const char c : buffer.substr(0, 64)) label += absl::ascii_isalnum(c) ? c : '_';
    absl::StatusOr<std::string> name = file_->WriteBeside(label + ".bin", bytes);
    if (!name.ok()) Stop(name.status().message());
    return name;
  }

  void DropContents(const std::string& file, int64_t bytes) {
    file_->RemoveBeside(file);
    MutexLock lock(&mutex_);
    bytes_ -= bytes;
  }

  absl::Status FitsContents(int64_t bytes) {
    MutexLock lock(&mutex_);
    return Fits(bytes);
  }

  void Stop(absl::string_view reason) {
    MutexLock lock(&mutex_);
    End(reason);
  }

  void Flush() {
    const absl::Time give_up = absl::Now() + kFlushWait;
    while (!TryWriteCounts() && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
  }

  std::string Status() {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kStopped) return absl::StrCat("stopped: ", reason_);
    if (phase_ == Phase::kFull) return absl::StrCat("full: ", reason_);
    if (!file_) return absl::StrCat("recording into ", options_.directory, ": no launch yet");
    return absl::StrCat("recording into ", file_->path(), ": ", order_.size(), " problems, ",
                        bytes_, " of ", options_.bytes_max, " bytes");
  }

 private:
  enum class Phase {
    kRecording,
    kFull,  // counts go on
    kStopped
  };

  struct Entry {
    std::string text;  // set once; empty until the problem is described
    int64_t launches = 0, first_at_unix_ms = 0, last_at_unix_ms = 0;

    void Count(int64_t now) {
      if (launches++ == 0) first_at_unix_ms = now;
      last_at_unix_ms = now;
    }
  };

  // An entry as it is to be written, without the lock.
  struct Row {
    const std::string* text;
    int64_t launches, first_at_unix_ms, last_at_unix_ms;

    explicit Row(const Entry& entry)
        : text(&entry.text),
          launches(entry.launches),
          first_at_unix_ms(entry.first_at_unix_ms),
          last_at_unix_ms(entry.last_at_unix_ms) {}
    void AppendTo(std::string& lines) const {
      absl::StrAppend(&lines, "problem { launches: ", launches,
                      " first_at_unix_ms: ", first_at_unix_ms,
                      " last_at_unix_ms: ", last_at_unix_ms, " ", *text, " }\n");
    }
  };

  std::vector<Row> RowsFrom(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Row> rows;
    for (; index < order_.size(); ++index) rows.emplace_back(*order_[index]);
    return rows;
  }

  absl::Status Fits(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t left = options_.bytes_max - bytes_;
    if (bytes <= left) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes, " bytes, ", left, " are left of HONE_CAPTURE_MAX_MB (", options_.bytes_max, ")"));
  }

  void End(absl::string_view reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (phase_ == Phase::kStopped) return;
    phase_ = Phase::kStopped;
    reason_ = std::string(reason);
    SayOnStandardError(absl::StrCat("hone: recording launches in ", options_.directory,
                                    " (HONE_CAPTURE) has ended: ", reason, "\n"));
  }

  // Whether there is a file. It is made with the first problem, so that programs that launch
  // nothing leave none.
  bool Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (file_ || phase_ == Phase::kStopped) return file_.has_value();
    absl::StatusOr<CaptureFile> file = CaptureFile::Create(options_.directory);
    const std::string header = Header();
    absl::Status status = file.status();
    if (file.ok()) status = file->Append(header);
    if (!status.ok()) {
      End(status.message());
      return false;
    }
    bytes_ += static_cast<int64_t>(header.size());
    file_.emplace(*std::move(file));
    return true;
  }

  // Makes the entry one of the file's. False: there is no room, or no file.
  bool Publish(const std::string& text, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!Open()) return false;
    const int64_t bytes = static_cast<int64_t>(text.size()) + kCountsBytes;
    if (bytes > options_.bytes_max - bytes_) {
      phase_ = Phase::kFull;
      reason_ = absl::StrCat("HONE_CAPTURE_MAX_MB (", options_.bytes_max,
                             " bytes) is reached with ", order_.size(),
                             " problems; new ones are not recorded, launches of "
                             "the known ones still counted");
      SayOnStandardError(absl::StrCat("hone: ", file_->path(), ": ", reason_, "\n"));
      return false;
    }
    bytes_ += bytes;
    entry.text = text;
    order_.push_back(&entry);
    return true;
  }

  // Appends what is not in the file yet, unless another thread is at it.
  void WriteNew() {
    while (HasNew() && !writing_.exchange(true, std::memory_order_acquire)) {
      std::vector<Row> rows;
      {
        MutexLock lock(&mutex_);
        rows = RowsFrom(written_);
        written_ = order_.size();
      }
      std::string lines;
      for (const Row& row : rows) row.AppendTo(lines);
      const absl::Status status = file_->Append(lines);
      writing_.store(false, std::memory_order_release);
      if (!status.ok()) Stop(status.message());
    }
  }

  bool HasNew() {
    MutexLock lock(&mutex_);
    return phase_ != Phase::kStopped && written_ < order_.size();
  }

  void FlushIfDue(int64_t now) {
    if (now >= next_flush_unix_ms_.load(std::memory_order_relaxed)) TryWriteCounts();
  }

  // False: another thread is writing.
  bool TryWriteCounts() {
    if (writing_.exchange(true, std::memory_order_acquire)) return false;
    const int64_t began = NowUnixMs();
    std::vector<Row> rows;
    {
      MutexLock lock(&mutex_);
      if (phase_ != Phase::kStopped && counted_) rows = RowsFrom(0);
      counted_ = false;
      if (!rows.empty()) written_ = order_.size();
    }
    absl::Status status;
    if (!rows.empty()) {
      std::string lines = Header();
      for (const Row& row : rows) row.AppendTo(lines);
      status = file_->Replace(lines);
    }
    const int64_t took_ms = NowUnixMs() - began;
    next_flush_unix_ms_ = began + std::max(kFlushIntervalMs, kFlushShare * took_ms);
    writing_.store(false, std::memory_order_release);
    if (!status.ok()) Stop(status.message());
    WriteNew();  // of threads that left it to this one
    return true;
  }

  const CaptureOptions& options_;
  const pid_t pid_ = ::getpid();
  // Held by the thread that writes to file_; nobody waits for it in a launch.
  std::atomic<bool> writing_{false};
  std::atomic<int64_t> next_flush_unix_ms_{NowUnixMs() + kFlushIntervalMs};

  Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kRecording;
  std::string reason_ ABSL_GUARDED_BY(mutex_);  // of the other phases
  // Nodes, which stay where they are.
  std::unordered_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<const Entry*> order_ ABSL_GUARDED_BY(mutex_);  // those that have a text
  bool counted_ ABSL_GUARDED_BY(mutex_) = false;             // since counts were written
  size_t written_ ABSL_GUARDED_BY(mutex_) = 0;               // of order_, at least appended
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t contents_files_ ABSL_GUARDED_BY(mutex_) = 0;
  // Set once, under the mutex; then used by the thread that writes.
  std::optional<CaptureFile> file_;
};

std::atomic<LaunchCapture*> LaunchCapture::first_{nullptr};

LaunchCapture* LaunchCapture::For(const CaptureOptions& options) {
  if (options.directory.empty()) return nullptr;
  std::unique_ptr<LaunchCapture> made;
  LaunchCapture* first = first_.load(std::memory_order_acquire);
  while (true) {
    for (LaunchCapture* capture = first; capture != nullptr; capture = capture->next_) {
      if (capture->options_.directory == options.directory) return capture;
    }
    if (made == nullptr) made.reset(new LaunchCapture(options));
    made->next_ = first;
    if (first_.compare_exchange_weak(first, made.get())) break;
  }
  // Programs that end without closing their clients.
  if (first == nullptr) ::atexit(&LaunchCapture::FlushAll);
  made->Here();
  return made.release();
}

void LaunchCapture::FlushAll() {
  for (LaunchCapture* capture = first_.load(); capture != nullptr; capture = capture->next_) {
    Recording* const recording = capture->recording_.load(std::memory_order_acquire);
    if (recording != nullptr && recording->pid() == ::getpid()) recording->Flush();
  }
}

LaunchCapture::Recording& LaunchCapture::Here() {
  Recording* present = recording_.load(std::memory_order_acquire);
  if (present != nullptr && present->pid() == ::getpid()) return *present;
  auto made = std::make_unique<Recording>(options_);
  if (recording_.compare_exchange_strong(present, made.get())) return *made.release();
  return *present;  // another thread's
}

bool LaunchCapture::Claim(const std::string& key) { return Here().Claim(key); }
void LaunchCapture::GiveUp(const std::string& key) { Here().GiveUp(key); }
bool LaunchCapture::Count(const std::string& key, bool claimed,
                          absl::FunctionRef<std::string()> describe) {
  return Here().Count(key, claimed, describe);
}
absl::StatusOr<std::string> LaunchCapture::StoreContents(absl::string_view buffer,
                                                         absl::string_view bytes) {
  return Here().StoreContents(buffer, bytes);
}
void LaunchCapture::DropContents(const std::string& file, int64_t bytes) {
  Here().DropContents(file, bytes);
}
absl::Status LaunchCapture::FitsContents(int64_t bytes) { return Here().FitsContents(bytes); }
void LaunchCapture::Stop(absl::string_view reason) { Here().Stop(reason); }
void LaunchCapture::Flush() { Here().Flush(); }
std::string LaunchCapture::Status() { return Here().Status(); }

}  // namespace hone
