#include "runtime/cpu/source_rewriter.h"

#include <gmock/gmock.h>

namespace hone {
namespace {

using testing::HasSubstr;

constexpr char kPointer[] =
    "float* const s = reinterpret_cast<float*>(::hone_cpu::dynamic_shared);";

TEST(SourceRewriterTest, DynamicSharedMemoryBecomesAPointer) {
  EXPECT_EQ(RewriteForHost("extern __shared__ float s[];"), kPointer);
  EXPECT_EQ(RewriteForHost("extern  __shared__ __align__(16) float s [ ] ;"), kPointer);
  EXPECT_EQ(RewriteForHost("extern __shared__ alignas(sizeof(T) * (N + 1)) float s[];"), kPointer);
  EXPECT_EQ(RewriteForHost("__shared__ extern float s[];"), kPointer);
}

TEST(SourceRewriterTest, TypesMayBeLong) {
  EXPECT_EQ(RewriteForHost("{ extern __shared__ typename A<T, 3>::type s[]; }"),
            "{ typename A<T, 3>::type* const s = reinterpret_cast<typename A<T, 3>::type*>("
            "::hone_cpu::dynamic_shared); }");
  EXPECT_THAT(RewriteForHost("extern __shared__ volatile unsigned char raw[];"),
              HasSubstr("volatile unsigned char* const raw"));
}

TEST(SourceRewriterTest, LineNumbersStay) {
  EXPECT_EQ(RewriteForHost("extern __shared__  // dynamic\n    float\n s[];\nint x;"),
            "float* const s = reinterpret_cast<float*>(::hone_cpu::dynamic_shared)\n\n;\nint x;");
}

TEST(SourceRewriterTest, AlignmentMovesInFront) {
  EXPECT_EQ(RewriteForHost("__shared__ alignas(16) T tile[N];"),
            "alignas(16) __shared__  T tile[N];");
  EXPECT_EQ(RewriteForHost("__shared__ __align__(16) T tile[N];"),
            "__shared__ __align__(16) T tile[N];");
}

TEST(SourceRewriterTest, EverythingElseStays) {
  for (const char* text :
       {"extern \"C\" __global__ void k(int* p) { p[0] = 1; }", "extern int x[];",
        "// extern __shared__ float s[];\n", "/* extern __shared__ float s[]; */",
        "const char* t = \"extern __shared__ float s[];\";", "__shared__ float s[3];",
        "auto r = R\"(extern __shared__ float s[];)\";", "int n = 1'000; char c = '\"';",
        "int externed; float my__shared__s[];", "extern __shared__ float"}) {
    EXPECT_EQ(RewriteForHost(text), text);
  }
}

}  // namespace
}  // namespace hone
