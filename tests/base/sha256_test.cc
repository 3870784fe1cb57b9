#include "runtime/base/sha256.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

// FIPS 180-2, appendix B.1.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256Test, MatchesThePublishedVector) { EXPECT_EQ(Sha256Hex("abc"), kAbc); }

TEST(Sha256Test, PiecesHashLikeTheWhole) {
  Sha256 hash;
  hash.Update("a").Update("").Update("bc");
  EXPECT_EQ(hash.FinishHex(), kAbc);
}

}  // namespace
}  // namespace hone
