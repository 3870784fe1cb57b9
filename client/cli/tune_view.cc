#include "client/cli/tune_view.h"

#include <algorithm>
#include <iostream>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/json.h"
#include "client/cli/terminal.h"

namespace hone::cli {
namespace {

// Faster than eyes follow, slow enough for a terminal over ssh.
constexpr absl::Duration kRedrawInterval = absl::Milliseconds(50);
constexpr int kBarWidth = 30;
// Lines of the screen that the table leaves: header, progress, prompt.
constexpr int kOtherLines = 5;
constexpr int kRowsAtLeast = 3;

void PrintStarted(const v1::TuneStarted& started) {
  std::cout << "tuning on " << started.device() << ": " << started.candidates()
            << (started.candidates() == 1 ? " candidate" : " candidates");
  if (started.already_measured() > 0) {
    std::cout << ", " << started.already_measured() << " measured already";
  }
  if (started.joined()) std::cout << " (joined a tune under way)";
  std::cout << "\ndefault " << started.default_config() << "\n" << std::flush;
}

class JsonView : public TuneView {
 public:
  void OnEvent(const v1::TuneEvent& event) override { PrintJsonLine(event).IgnoreError(); }
  void OnEnd(const v1::TuneFinished*) override {}
};

class PlainView : public TuneView {
 public:
  void OnEvent(const v1::TuneEvent& event) override {
    const bool is_new = event.has_candidate() && board_.IsNew(event.candidate());
    board_.Add(event);
    if (event.has_started()) PrintStarted(event.started());
    if (is_new && !IsExcluded(event.candidate()))
      std::cout << board_.CandidateLine(event.candidate()) << "\n" << std::flush;
  }
  void OnEnd(const v1::TuneFinished* finished) override {
    if (finished == nullptr) return;
    const std::vector<std::string> lines = board_.Lines(0);
    if (!lines.empty()) std::cout << "\n";
    for (const std::string& line : lines) std::cout << line << "\n";
    std::cout << "\n" << Summary(board_, *finished) << std::flush;
  }

 private:
  TuneBoard board_;
};

class LiveView : public TuneView {
 public:
  void OnEvent(const v1::TuneEvent& event) override {
    const bool first =
        event.has_candidate() && !board_.HasTimed() && !event.candidate().has_rejection();
    board_.Add(event);
    if (event.has_started()) PrintStarted(event.started());
    // The first time is what a person at the keyboard waits for.
    const absl::Time now = absl::Now();
    if (!first && now - drawn_at_ < kRedrawInterval) return;
    drawn_at_ = now;
    const int rows = std::max(GetTerminalSize().rows - kOtherLines, kRowsAtLeast);
    std::vector<std::string> lines = board_.Lines(static_cast<size_t>(rows));
    lines.push_back(board_.ProgressLine(kBarWidth, ShowsUtf8()));
    block_.Draw(lines);
  }
  void OnEnd(const v1::TuneFinished* finished) override {
    block_.Clear();
    for (const std::string& line : board_.Lines(0)) std::cout << line << "\n";
    if (finished != nullptr) std::cout << "\n" << Summary(board_, *finished);
    std::cout << std::flush;
  }

 private:
  TuneBoard board_;
  LiveBlock block_;
  absl::Time drawn_at_ = absl::InfinitePast();
};

}  // namespace

std::unique_ptr<TuneView> MakeTuneView(bool json) {
  if (json) return std::make_unique<JsonView>();
  if (IsTerminal()) return std::make_unique<LiveView>();
  return std::make_unique<PlainView>();
}

}  // namespace hone::cli
