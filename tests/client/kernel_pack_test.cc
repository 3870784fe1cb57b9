// The file format of packs: what is written is read, and nothing else is.
#include "client/cpp/kernel_pack.h"

#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "runtime/base/sanitizers.h"
#include "tests/client/pack_fixture.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum absl::StatusCode;

class KernelPackTest : public testing::Test {
 protected:
  KernelPackTest() { pack_.Add(CopyReply(1024)).Add(CopyReply(4096)).Add(CopyReply(64, "F16")); }

  std::string Bytes() {
    pack_.Write();
    return *ReadFile(pack_.path());
  }
  absl::Status OpenBytes(const std::string& bytes) {
    // Without the fsync of a pack that somebody needs.
    std::ofstream(pack_.path(), std::ios::binary | std::ios::trunc) << bytes;
    return KernelPack::Open(pack_.path()).status();
  }
  // What Open says of a pack with this index, whose hashes are right.
  absl::Status OpenChanged(const std::function<void(v1::KernelPackIndex&)>& change,
                           int64_t contents_more = 0) {
    const std::string bytes = Bytes();
    const auto head = DecodePackHead(bytes);
    EXPECT_THAT(head, IsOk());
    v1::KernelPackIndex index;
    EXPECT_TRUE(index.ParseFromString(bytes.substr(kPackHeadBytes, head->index_bytes)));
    change(index);
    const std::string changed = DeterministicBytes(index);
    const uint64_t contents = head->contents_bytes + static_cast<uint64_t>(contents_more);
    std::string whole = EncodePackHead({.contents_bytes = contents}, changed) + changed +
                        bytes.substr(kPackHeadBytes + head->index_bytes, head->contents_bytes) +
                        std::string(static_cast<size_t>(contents_more), 'x');
    whole += absl::HexStringToBytes(Sha256Hex(whole));
    return OpenBytes(whole);
  }

  PackFixture pack_;
};

TEST_F(KernelPackTest, GivesBackWhatWasWritten) {
  const WrittenPack written = pack_.Write();
  EXPECT_EQ(written.kernels, 3);
  EXPECT_EQ(written.artifacts, 5) << "the fallback of one type is one binary";
  const auto pack = pack_.Open();
  EXPECT_EQ(pack->digest(), written.digest);
  EXPECT_EQ(pack->file_bytes(), written.file_bytes);
  EXPECT_EQ(pack->index().origin().made_by(), "honed 1");
  ASSERT_EQ(pack->index().kernels_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const auto reply = pack->Reply(i);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->kernel().generation(), 1000u);
    EXPECT_EQ(pack->index().kernels(i).min_driver(), 12000);
    for (const v1::KernelVariant& variant : reply->kernel().variants()) {
      const auto bytes = pack->Artifact(variant.artifact().sha256());
      ASSERT_THAT(bytes, IsOk());
      EXPECT_EQ(Sha256Hex(*bytes), variant.artifact().sha256());
    }
  }
  EXPECT_THAT(pack->Verify(), IsOk());
  EXPECT_THAT(pack->Artifact(Sha256Hex("other")), StatusIs(kNotFound, HasSubstr(pack->path())));
}

TEST_F(KernelPackTest, EqualKernelsMakeEqualBytesInWhateverOrderTheyCome) {
  v1::GetKernelResponse tuning = CopyReply(1024);
  tuning.set_tuning(true);  // true for a moment only
  tuning.mutable_kernel()->mutable_variants(0)->set_artifact_bytes("sent inline");
  PackFixture other;
  other.Add(CopyReply(64, "F16")).Add(tuning).Add(CopyReply(4096));
  other.Write();
  EXPECT_EQ(*ReadFile(other.path()), Bytes());
}

TEST_F(KernelPackTest, ATruncatedFileIsRefusedAtEveryLength) {
  const std::string bytes = Bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THAT(OpenBytes(bytes.substr(0, length)), StatusIs(kDataLoss, HasSubstr(pack_.path())))
        << length;
  }
  EXPECT_THAT(OpenBytes(bytes + "x"), StatusIs(kDataLoss, HasSubstr("1 bytes too many")));
  EXPECT_THAT(OpenBytes(bytes), IsOk());
}

TEST_F(KernelPackTest, AFlippedBitIsFoundWhereverItIs) {
  const std::string bytes = Bytes();
  const size_t contents_at = kPackHeadBytes + DecodePackHead(bytes)->index_bytes;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    const absl::Status opened = OpenBytes(flipped);
    if (at < contents_at) {
      ASSERT_FALSE(opened.ok()) << at;
      continue;
    }
    // Contents are checked when they are used, and all of them by Verify.
    ASSERT_THAT(opened, IsOk()) << at;
    ASSERT_THAT((*KernelPack::Open(pack_.path()))->Verify(), StatusIs(kDataLoss, HasSubstr("dam")))
        << at;
  }
}

TEST_F(KernelPackTest, ADamagedContentIsRefusedWhenItIsRead) {
  std::string bytes = Bytes();
  const std::string binary = CopyBinary(4096, "F32");
  const size_t at = bytes.find(binary);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = '!';
  ASSERT_THAT(OpenBytes(bytes), IsOk());
  const auto pack = *KernelPack::Open(pack_.path());
  EXPECT_THAT(pack->Artifact(Sha256Hex(binary)),
              StatusIs(kDataLoss, AllOf(HasSubstr(pack_.path()), HasSubstr(Sha256Hex(binary)))));
  EXPECT_THAT(pack->Artifact(Sha256Hex(CopyBinary(1024, "F32"))), IsOk());
}

TEST_F(KernelPackTest, WhatIsNoPackOrOnlyANewerHonesSaysSo) {
  std::string bytes = Bytes();
  EXPECT_THAT(OpenBytes(std::string(5000, 'x')),
              StatusIs(kInvalidArgument, HasSubstr("is no kernel pack")));
  std::string newer = bytes;
  newer[8] = 7;
  EXPECT_THAT(OpenBytes(newer),
              StatusIs(kFailedPrecondition, AllOf(HasSubstr("format version 7"),
                                                  HasSubstr("reads version 1; update hone"))));
  std::string compressed = bytes;
  compressed[12] = 4;
  EXPECT_THAT(OpenBytes(compressed), StatusIs(kFailedPrecondition, HasSubstr("features 0x4")));
  EXPECT_THAT(KernelPack::Open(pack_.path() + "none"),
              StatusIs(kNotFound, HasSubstr(pack_.path() + "none")));
  EXPECT_THAT(KernelPack::Open("/dev/zero"), StatusIs(kInvalidArgument, HasSubstr("regular file")));
}

TEST_F(KernelPackTest, AnExtensionIsPassedOver) {
  const std::string bytes = Bytes();
  const auto head = *DecodePackHead(bytes);
  const std::string index = bytes.substr(kPackHeadBytes, head.index_bytes);
  std::string extended =
      EncodePackHead({.contents_bytes = head.contents_bytes, .extension_bytes = 9}, index) +
      bytes.substr(kPackHeadBytes, head.index_bytes + head.contents_bytes) + "signature";
  extended += absl::HexStringToBytes(Sha256Hex(extended));
  ASSERT_THAT(OpenBytes(extended), IsOk());
  EXPECT_THAT((*KernelPack::Open(pack_.path()))->Verify(), IsOk());
}

TEST_F(KernelPackTest, AnIndexThatContradictsItselfIsRefused) {
  EXPECT_THAT(OpenChanged([](v1::KernelPackIndex&) {}), IsOk());
  struct Case {
    const char* what;
    std::function<void(v1::KernelPackIndex&)> change;
  };
  const Case cases[] = {
      {"kernels[3] is there twice", [](auto& i) { *i.add_kernels() = i.kernels(0); }},
      {"template copy_1d twice", [](auto& i) { *i.add_templates() = i.templates(0); }},
      {"the device sm_90a twice", [](auto& i) { *i.add_devices() = i.devices(0); }},
      {"is there twice",
       [](auto& i) { i.mutable_contents(1)->set_sha256(i.contents(0).sha256()); }},
      {"is not a SHA-256", [](auto& i) { i.mutable_contents(1)->set_sha256("../../etc/passwd"); }},
      {"size_bytes is -1", [](auto& i) { i.mutable_contents(0)->set_size_bytes(-1); }},
      {"size_bytes is 9223372036854775807",
       [](auto& i) { i.mutable_contents(0)->set_size_bytes(std::numeric_limits<int64_t>::max()); }},
      {"belong to none", [](auto& i) { i.mutable_contents(0)->set_size_bytes(0); }},
      {"template_index is 1, there are 1",
       [](auto& i) { i.mutable_kernels(0)->set_template_index(1); }},
      {"device_index is -1", [](auto& i) { i.mutable_kernels(0)->set_device_index(-1); }},
      {"reply_content is 99", [](auto& i) { i.mutable_kernels(0)->set_reply_content(99); }},
      {"artifact_contents is -5",
       [](auto& i) { i.mutable_kernels(0)->set_artifact_contents(0, -5); }},
      {"it has no binary", [](auto& i) { i.mutable_kernels(0)->clear_artifact_contents(); }},
      {"a name and a SHA-256", [](auto& i) { i.mutable_templates(0)->set_digest("1"); }},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(OpenChanged(each.change),
                StatusIs(kInvalidArgument, AllOf(HasSubstr(each.what), HasSubstr(pack_.path()))))
        << each.what;
  }
  EXPECT_THAT(OpenChanged([](v1::KernelPackIndex&) {}, /*contents_more=*/3),
              StatusIs(kInvalidArgument, HasSubstr("3 bytes of the contents belong to none")));
}

TEST_F(KernelPackTest, AReplyThatIsNotItsKernelsIsRefused) {
  const auto open_and_read = [&](const std::function<void(v1::KernelPackIndex&)>& change) {
    EXPECT_THAT(OpenChanged(change), IsOk());
    return (*KernelPack::Open(pack_.path()))->Reply(0).status();
  };
  EXPECT_THAT(open_and_read([](v1::KernelPackIndex& index) {
                index.mutable_kernels(0)->set_reply_content(index.kernels(0).artifact_contents(0));
              }),
              StatusIs(kInvalidArgument, HasSubstr("the reply of kernels[0]")));
  EXPECT_THAT(open_and_read([](v1::KernelPackIndex& index) {
                index.mutable_kernels(0)->set_architecture("sm_80");
              }),
              StatusIs(kInvalidArgument, HasSubstr("is for 'sm_90a', not for 'sm_80'")));
  EXPECT_THAT(open_and_read([](v1::KernelPackIndex& index) {
                index.mutable_kernels(0)->mutable_artifact_contents()->RemoveLast();
              }),
              StatusIs(kInvalidArgument, HasSubstr("which is not listed")));
  EXPECT_THAT(open_and_read(
                  [](v1::KernelPackIndex& index) { index.mutable_kernels(0)->set_min_driver(1); }),
              StatusIs(kInvalidArgument, HasSubstr("needs driver 12000")));
}

// Bytes that nobody wrote must make errors, never crashes or endless allocations.
TEST_F(KernelPackTest, RandomDamageIsAnError) {
  const std::string bytes = Bytes();
  std::mt19937 random(1);
  const auto below = [&](size_t bound) { return random() % bound; };
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = bytes;
    for (size_t i = 0, count = 1 + below(8); i < count; ++i) {
      // Most in the head and the index, where lengths are.
      const size_t at = below(round % 2 == 0 ? kPackHeadBytes : damaged.size());
      damaged[at] = static_cast<char>(round % 3 == 0 ? 0xff : below(256));
    }
    if (round % 5 == 0) damaged.resize(below(damaged.size()));
    if (damaged == bytes) continue;
    if (!OpenBytes(damaged).ok()) continue;
    EXPECT_FALSE((*KernelPack::Open(pack_.path()))->Verify().ok()) << round;
  }
}

TEST_F(KernelPackTest, HashedGarbageInTheIndexIsAnError) {
  // What passes the digest reaches the parser and the checks behind it.
  const std::string bytes = Bytes();
  const auto head = *DecodePackHead(bytes);
  std::mt19937 random(2);
  const google::protobuf::LogSilencer quiet;  // it tells of strings that are not UTF-8
  for (int round = 0; round < 3000; ++round) {
    std::string index = bytes.substr(kPackHeadBytes, head.index_bytes);
    for (int i = 0; i < 1 + round % 4; ++i) {
      index[random() % index.size()] = static_cast<char>(random());
    }
    std::string whole = EncodePackHead({.contents_bytes = head.contents_bytes}, index) + index +
                        bytes.substr(kPackHeadBytes + head.index_bytes);
    if (!OpenBytes(whole).ok()) continue;
    const auto pack = *KernelPack::Open(pack_.path());
    for (int i = 0; i < pack->index().kernels_size(); ++i) pack->Reply(i).IgnoreError();
  }
}

TEST_F(KernelPackTest, APackThatIsReplacedStaysWhatItWas) {
  const auto pack = pack_.Open();
  ASSERT_THAT(WriteFileAtomic(pack_.path(), "something else"), IsOk());
  EXPECT_THAT(pack->Verify(), IsOk());
}

TEST_F(KernelPackTest, HostCodeIsTakenOnlyByWhoMay) {
  EXPECT_THAT(pack_.writer().Add(Gpu(), v1::WITHIN_TOLERANCE, CopyReply(8, "F32", "cpu")),
              StatusIs(kFailedPrecondition, HasSubstr("packs carry no host code")));
  PackFixture allowed(/*allow_host_code=*/true);
  allowed.Add(CopyReply(8, "F32", "cpu"));
  EXPECT_EQ(allowed.Write().kernels, 1);
}

TEST_F(KernelPackTest, TheWriterRefusesWhatAReaderWould) {
  EXPECT_THAT(pack_.writer().Add(Gpu(), v1::WITHIN_TOLERANCE, CopyReply(1024)),
              StatusIs(kAlreadyExists, HasSubstr("the same kernel")));
  v1::GetKernelResponse other = CopyReply(8);
  other.mutable_kernel()->set_template_name("other");
  EXPECT_THAT(pack_.writer().Add(Gpu(), v1::WITHIN_TOLERANCE, other),
              StatusIs(kInvalidArgument, HasSubstr("was not added")));
  v1::PackedTemplate changed = PackedCopy();
  changed.set_digest(Sha256Hex("changed"));
  EXPECT_THAT(pack_.writer().AddTemplate(changed), StatusIs(kAlreadyExists, HasSubstr("copy_1d")));
}

TEST_F(KernelPackTest, AFailedExportLeavesTheOldPack) {
  const std::string before = Bytes();
  const auto lying = [](const std::string&) { return std::string("something else"); };
  EXPECT_THAT(pack_.writer().Write(pack_.path(), lying),
              StatusIs(kDataLoss, HasSubstr("artifact")));
  const auto failing = [](const std::string&) -> absl::StatusOr<std::string> {
    return absl::UnavailableError("gone");
  };
  EXPECT_THAT(pack_.writer().Write(pack_.path(), failing), StatusIs(kUnavailable, "gone"));
  EXPECT_EQ(*ReadFile(pack_.path()), before);
  EXPECT_THAT(*ListDirectory(DirectoryName(pack_.path())), testing::ElementsAre("pack"));
}

TEST_F(KernelPackTest, ManyKernelsAreOpenedInNoTime) {
  PackFixture many;
  for (int64_t n = 0; n < 20'000; ++n) {
    v1::GetKernelResponse reply = CopyReply(1);
    (*reply.mutable_kernel()->mutable_params())["n"].set_integer(n);
    reply.set_key(Sha256Hex(absl::StrCat(n)));
    many.Add(std::move(reply));
  }
  many.Write();
  const absl::Time began = absl::Now();
  const auto pack = KernelPack::Open(many.path());
  const absl::Duration took = absl::Now() - began;
  ASSERT_THAT(pack, IsOk());
  EXPECT_EQ((*pack)->index().kernels_size(), 20'000);
  RecordProperty("open_ms", static_cast<int>(absl::ToInt64Milliseconds(took)));
#ifdef HONE_SANITIZED
  const absl::Duration bound = absl::Seconds(30);
#else
  const absl::Duration bound = absl::Seconds(2);
#endif
  EXPECT_LT(took, bound);
}

}  // namespace
}  // namespace hone
