// A template of one kernel, for tests that make their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "hone/v1/kernel_template.pb.h"

namespace hone {

template <class Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct OneKernel {
  std::string kernel;   // KERNEL<${TUNABLE}> is launched, KERNEL_reference is right, exactly
  std::string tunable;  // the only one; the first of `values` is its default
  std::vector<int64_t> values;
  std::string block = "64";  // threads, an expression; each writes one element
  bool reads_x = false;      // KERNEL(y, x, n), else KERNEL(y, n); y and x have n floats
  std::string source;
};

// Its name is the kernel's, its version "1".
inline v1::KernelTemplate OneKernelTemplate(const OneKernel& given) {
  auto message = FromText<v1::KernelTemplate>(
      absl::StrCat("name: '", given.kernel, "' version: '1' source: '", given.kernel, ".cu'",
                   R"pb(
                     params {
                       name: "n"
                       size { dynamic: true }
                     }
                     arguments {
                       name: "y"
                       buffer {
                         dtype: "F32"
                         shape: [ "n" ]
                         access: WRITE
                       }
                     }
                   )pb",
                   given.reads_x ? R"pb(
                         arguments {
                           name: "x"
                           buffer {
                             dtype: "F32"
                             shape: [ "n" ]
                             access: READ
                             init: NORMAL
                           }
                         }
                       )pb"
                                 : "",
                   R"pb(
                     arguments {
                       name: "n"
                       scalar { type: I64 value: "n" }
                     }
                     check {
                       launch { grid_x: "ceil_div(n, 64)" block_x: "64" }
                       output: "y"
                       exact: true
                     }
                   )pb",
                   "steps { entry: '", given.kernel, "<${", given.tunable,
                   "}>' launch { grid_x: 'ceil_div(n, ", given.block, ")' block_x: '", given.block,
                   "' } }", "work { bytes: '", given.reads_x ? 8 : 4, " * n' flops: '0' }"));
  message.mutable_check(0)->set_reference(given.kernel + "_reference");
  v1::Tunable* tunable = message.add_tunables();
  tunable->set_name(given.tunable);
  for (const int64_t value : given.values) tunable->add_values(value);
  tunable->set_default_(given.values.front());
  v1::SourceFile* file = message.add_files();
  file->set_name(given.kernel + ".cu");
  file->set_content(given.source);
  return message;
}

}  // namespace hone
