#include "client/cli/disassembler.h"

#include <sys/stat.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/files.h"
#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

v1::ArtifactInfo Info(const std::string& format) {
  v1::ArtifactInfo info;
  info.set_format(format);
  return info;
}

class DisassemblerTest : public testing::Test {
 protected:
  // A tool that prints its name, its options and the file it is given.
  void Install(const std::string& name, const std::string& more = "") {
    const std::string path = JoinPath(directory_.path(), name);
    ASSERT_THAT(
        WriteNewFile(path, "#!/bin/sh\necho \"" + name + " $1\"; cat \"$2\"\n" + more, 0755),
        IsOk());
    chmod(path.c_str(), 0755);
  }
  absl::StatusOr<std::string> Run(const std::string& format) {
    return Disassemble(Info(format), "BYTES", {"/nowhere/bin", directory_.path()});
  }

  TemporaryDirectory directory_ = TemporaryDirectory::Create().value();
};

TEST_F(DisassemblerTest, WithoutAToolItNamesWhatToInstallAndWhereItLooked) {
  EXPECT_THAT(Run("CUBIN"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     AllOf(HasSubstr("nvdisasm"), HasSubstr("cuobjdump"),
                                           HasSubstr("CUDA toolkit"), HasSubstr("/nowhere/bin"))));
  EXPECT_THAT(Run("HOST_ELF"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("binutils")));
}

TEST_F(DisassemblerTest, EitherToolWillDoAndNvdisasmIsPreferred) {
  Install("cuobjdump");
  EXPECT_THAT(Run("CUBIN"), IsOkAndHolds("cuobjdump -sass\nBYTES"));
  Install("nvdisasm");
  EXPECT_THAT(Run("CUBIN"), IsOkAndHolds("nvdisasm -c\nBYTES"));
}

TEST_F(DisassemblerTest, AFailingToolSpeaksForItself) {
  Install("nvdisasm", "echo not an ELF >&2; exit 3\n");
  EXPECT_THAT(Run("CUBIN"), StatusIs(absl::StatusCode::kInternal,
                                     AllOf(HasSubstr("nvdisasm"), HasSubstr("not an ELF"))));
}

TEST_F(DisassemblerTest, PtxHasNoMachineCode) {
  Install("nvdisasm");
  EXPECT_THAT(Run("PTX"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--ptx")));
}

}  // namespace
}  // namespace hone::cli
