// How `hone tune` shows a tune: a table drawn in place, plain lines, or JSON.
#pragma once

#include <memory>

#include "client/cli/tune_board.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone::cli {

class TuneView {
 public:
  virtual ~TuneView() = default;
  virtual void OnEvent(const v1::TuneEvent& event) = 0;
  // After the last event, also when the tune failed (`finished` is nullptr then).
  virtual void OnEnd(const v1::TuneFinished* finished) = 0;
};

// JSON lines, a live table on a terminal, plain lines elsewhere.
std::unique_ptr<TuneView> MakeTuneView(bool json);

}  // namespace hone::cli
