// The generator against the interpreter: chains compiled by the host compiler and run on the CPU
// reference device, element by element within the interpreter's own bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/device/chain_interpreter.h"
#include "runtime/generate/chain_source.h"
#include "tests/generate/chain_texts.h"

namespace hone {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kAlpha = 1.5f;

const ChainNames& Names() {
  static const auto* const names = new ChainNames{.inputs = {"a", "b", "c"}, .scalars = {"alpha"}};
  return *names;
}

using Row = std::array<float, 3>;

// Every pair of what is special, and ordinary numbers.
std::vector<Row> Rows() {
  const std::vector<float> special = {0.0f,   -0.0f,  1.0f,      -1.0f,      0.5f,  -2.5f,
                                      88.0f,  -88.0f, 104.0f,    -104.0f,    3e38f, -3e38f,
                                      1e-38f, 1e-42f, kInfinity, -kInfinity, kNan};
  std::vector<Row> rows;
  for (const float a : special) {
    for (const float b : special) rows.push_back({a, b, 0.75f});
  }
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 1500; ++i)
    rows.push_back({normal(random), normal(random), 4 * normal(random)});
  return rows;
}

// All chains of a list, compiled together; the results of each on all rows.
class ChainsOnCpu {
 public:
  ChainsOnCpu(const std::vector<Chain>& chains, std::vector<Row> rows)
      : chains_(chains), device_(MakeCpuDevice()), rows_(std::move(rows)) {
    Program program;
    program.name = "chains.cu";
    program.architecture = "cpu";
    for (size_t i = 0; i < chains.size(); ++i) {
      const std::string name = absl::StrCat("f", i);
      program.headers.push_back({ChainHeaderName(name), ChainSource(chains[i], name)});
      absl::StrAppend(&program.source, "#include \"", ChainHeaderName(name), "\"\n");
    }
    program.source += R"cuda(
template <typename F, bool FAST>
__global__ void run(float* out, const float* in, float alpha, int rows) {
  for (int i = 0; i < rows; ++i) {
    out[i] = F::template Apply<FAST>(in[3 * i], in[3 * i + 1], in[3 * i + 2], alpha);
  }
}
)cuda";
    for (size_t i = 0; i < chains.size(); ++i) {
      for (const bool fast : {false, true}) program.name_expressions.push_back(Entry(i, fast));
    }
    const std::unique_ptr<Compiler> compiler = HostCompiler::Create({}).value();
    const absl::StatusOr<CompileOutcome> outcome = compiler->Compile(program, {});
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return;
    EXPECT_TRUE(outcome->artifact.has_value()) << outcome->log;
    if (!outcome->artifact.has_value()) return;
    artifact_ = *outcome->artifact;
    module_ = device_->Load(artifact_).value();
  }

  bool usable() const { return module_ != nullptr; }
  const std::vector<Row>& rows() const { return rows_; }

  std::vector<float> Run(size_t chain, bool fast) {
    const int64_t in_bytes = static_cast<int64_t>(rows_.size() * sizeof(Row));
    const int64_t out_bytes = static_cast<int64_t>(rows_.size() * sizeof(float));
    const uint64_t in = device_->Allocate(in_bytes).value();
    const uint64_t out = device_->Allocate(out_bytes).value();
    EXPECT_TRUE(device_->CopyToDevice(in, rows_.data(), in_bytes).ok());
    ResolvedStep step;
    step.symbol = artifact_.lowered_names.at(Entry(chain, fast));
    step.grid = step.block = step.cluster = {1, 1, 1};
    step.arguments = {Pack(out), Pack(in), Pack(kAlpha), Pack(static_cast<int>(rows_.size()))};
    ResolvedLaunch launch;
    launch.steps.push_back(std::move(step));
    EXPECT_TRUE(device_->Launch(*module_, launch).ok());
    EXPECT_TRUE(device_->Synchronize().ok());
    std::vector<float> results(rows_.size());
    EXPECT_TRUE(device_->CopyToHost(results.data(), out, out_bytes).ok());
    device_->Free(in);
    device_->Free(out);
    return results;
  }

 private:
  static std::string Entry(size_t chain, bool fast) {
    return absl::StrCat("run<chain_f", chain, ", ", fast ? "true" : "false", ">");
  }
  template <typename T>
  static PackedArgument Pack(T value) {
    PackedArgument packed;
    packed.bytes.resize(sizeof(T));
    std::memcpy(packed.bytes.data(), &value, sizeof(T));
    return packed;
  }

  const std::vector<Chain>& chains_;
  const std::unique_ptr<Device> device_;
  const std::vector<Row> rows_;
  Artifact artifact_;
  std::unique_ptr<LoadedModule> module_;
};

// Wrong results of all chains, in words, and how much was decided.
void ExpectWithinBounds(const std::vector<Chain>& chains) {
  ChainsOnCpu bench(chains, Rows());
  ASSERT_TRUE(bench.usable());
  int64_t decided = 0;
  int64_t elements = 0;
  for (size_t i = 0; i < chains.size(); ++i) {
    for (const bool fast : {false, true}) {
      const std::vector<float> results = bench.Run(i, fast);
      ChainInterpreter interpreter(&chains[i], {kAlpha}, fast);
      for (size_t row = 0; row < results.size(); ++row) {
        const Row& in = bench.rows()[row];
        const double inputs[] = {in[0], in[1], in[2]};
        const BoundedValue expected = interpreter.Evaluate(inputs);
        ++elements;
        decided += expected.decides() ? 1 : 0;
        ASSERT_TRUE(RightResults(DataType::kF32, expected).Contains(results[row]))
            << chains[i].text() << (fast ? " (fast)" : "") << " of " << in[0] << ", " << in[1]
            << ", " << in[2] << " gave " << results[row] << ", expected " << expected.value
            << " within " << expected.error;
      }
    }
  }
  // A check that lets everything pass would be none.
  EXPECT_GT(static_cast<double>(decided), 0.6 * static_cast<double>(elements));
}

TEST(ChainsOnCpuTest, RandomChainsStayWithinTheInterpretersBounds) {
  std::mt19937 random(20261130);
  std::vector<Chain> chains;
  while (chains.size() < 100) {
    const int depth = 1 + static_cast<int>(chains.size() % 4);
    chains.push_back(Chain::Parse(RandomChainText(random, Names(), depth), Names()).value());
  }
  ExpectWithinBounds(chains);
}

TEST(ChainsOnCpuTest, EveryFunctionStaysWithinTheInterpretersBounds) {
  std::vector<Chain> chains;
  for (const char* text : {"a",
                           "-a",
                           "a+b",
                           "a-b",
                           "a*b",
                           "a/b",
                           "abs(a)",
                           "exp(a)",
                           "log(a)",
                           "sqrt(a)",
                           "rsqrt(a)",
                           "tanh(a)",
                           "erf(a)",
                           "relu(a)",
                           "sigmoid(a)",
                           "silu(a)",
                           "gelu(a)",
                           "gelu_tanh(a)",
                           "min(a,b)",
                           "max(a,b)",
                           "clamp(a,b,c)",
                           "clamp(a,-1,1)",
                           "where(a<b,a,c)",
                           "where(a<=b,a,c)",
                           "where(a>b,a,c)",
                           "where(a>=b,a,c)",
                           "where(a==b,a,c)",
                           "where(a!=b,a,c)",
                           "silu(a)*b",
                           "gelu_tanh(a+b)",
                           "a*alpha+b",
                           "silu(c)",
                           "gelu(c)",
                           "gelu_tanh(c)",
                           "sigmoid(c)",
                           "exp(c)"}) {
    chains.push_back(Chain::Parse(text, Names()).value());
  }
  ExpectWithinBounds(chains);
}

// As PyTorch has it, from its documentation and by hand, not from the interpreter.
TEST(ChainsOnCpuTest, SpecialValuesAreAsInPyTorch) {
  struct Known {
    const char* chain;
    float a;
    float b;
    float result;
  };
  const std::vector<Known> table = {
      {"relu(a)", kNan, 0, kNan},
      {"relu(a)", -kInfinity, 0, 0},
      {"relu(a)", kInfinity, 0, kInfinity},
      {"max(a,b)", kNan, 1, kNan},
      {"max(a,b)", 1, kNan, kNan},
      {"min(a,b)", kNan, 1, kNan},
      {"min(a,b)", 1, kNan, kNan},
      {"max(a,b)", -kInfinity, -1, -1},
      {"clamp(a,-1,1)", kNan, 0, kNan},
      {"clamp(a,-1,1)", kInfinity, 0, 1},
      {"clamp(a,-1,1)", -2.5f, 0, -1},
      {"clamp(a,b,-1)", 0.5f, 1, -1},
      {"clamp(a,b,1)", 0.5f, kNan, kNan},
      {"silu(a)", kInfinity, 0, kInfinity},
      {"silu(a)", -kInfinity, 0, kNan},
      {"silu(a)", 0, 0, 0},
      {"silu(a)", 1, 0, 0.73105858f},
      {"gelu(a)", kInfinity, 0, kInfinity},
      {"gelu(a)", -kInfinity, 0, kNan},
      {"gelu(a)", 1, 0, 0.84134475f},
      {"gelu_tanh(a)", 1, 0, 0.84119199f},
      {"gelu_tanh(a)", -kInfinity, 0, kNan},
      {"gelu_tanh(a)", kInfinity, 0, kInfinity},
      {"sigmoid(a)", -kInfinity, 0, 0},
      {"sigmoid(a)", kInfinity, 0, 1},
      {"sigmoid(a)", kNan, 0, kNan},
      {"tanh(a)", -kInfinity, 0, -1},
      {"sqrt(a)", -1, 0, kNan},
      {"log(a)", 0, 0, -kInfinity},
      {"log(a)", -1, 0, kNan},
      {"rsqrt(a)", 0, 0, kInfinity},
      {"exp(a)", -kInfinity, 0, 0},
      {"exp(a)", 104, 0, kInfinity},
      {"a/b", 1, 0, kInfinity},
      {"a/b", -1, 0, -kInfinity},
      {"a/b", 0, 0, kNan},
      {"a-b", kInfinity, kInfinity, kNan},
      {"where(a<b,1*a,2*b)", kNan, 1, 2},
      {"where(a!=a,b,a)", kNan, 1, 1},
      {"a-b*c", 1, 2, -0.5f},
      {"(a-b)*c", 1, 2, -0.75f},
      {"a-b-c", 1, 2, -1.75f},
      {"a-(b-c)", 1, 2, -0.25f},
      {"a/b/c", 3, 2, 2},
      {"-a*b+c", 3, 2, -5.25f},
      {"a*alpha+b", 2, 1, 4},
  };
  std::vector<Chain> chains;
  std::vector<Row> rows;
  for (const Known& known : table) {
    chains.push_back(Chain::Parse(known.chain, Names()).value());
    rows.push_back({known.a, known.b, 0.75f});
  }
  ChainsOnCpu bench(chains, rows);
  ASSERT_TRUE(bench.usable());
  for (size_t i = 0; i < table.size(); ++i) {
    for (const bool fast : {false, true}) {
      const float computed = bench.Run(i, fast)[i];
      if (std::isnan(table[i].result)) {
        EXPECT_TRUE(std::isnan(computed)) << table[i].chain << " gave " << computed;
      } else if (std::isinf(table[i].result)) {
        EXPECT_EQ(computed, table[i].result) << table[i].chain;
      } else {
        EXPECT_NEAR(computed, table[i].result, 1e-6) << table[i].chain;
      }
      ChainInterpreter interpreter(&chains[i], {kAlpha}, fast);
      const double inputs[] = {table[i].a, table[i].b, 0.75};
      const BoundedValue got = interpreter.Evaluate(inputs);
      EXPECT_TRUE(got.decides()) << table[i].chain << " of " << table[i].a << ", " << table[i].b;
      if (std::isnan(table[i].result)) {
        EXPECT_TRUE(std::isnan(got.value)) << table[i].chain << " gave " << got.value;
      } else if (std::isinf(table[i].result)) {
        EXPECT_EQ(got.value, table[i].result) << table[i].chain;
      } else {
        EXPECT_NEAR(got.value, table[i].result, 1e-7) << table[i].chain;
        EXPECT_LT(got.error, 2e-5) << table[i].chain;
      }
    }
  }
}

// The bounds are no excuse: an error a float's arithmetic cannot make is seen.
TEST(ChainInterpreterTest, BoundsAreTight) {
  const auto bound = [](const char* text, double a, double b, bool fast) {
    const Chain chain = Chain::Parse(text, Names()).value();
    const double inputs[] = {a, b, 0.75};
    return ChainInterpreter(&chain, {kAlpha}, fast).Evaluate(inputs);
  };
  const BoundedValue precise = bound("silu(a)*b", 1.25, 3, false);
  EXPECT_LT(precise.error, 2e-6 * precise.value);
  const BoundedValue fast = bound("silu(a)*b", 1.25, 3, true);
  EXPECT_LT(fast.error, 4e-6 * fast.value);
  EXPECT_EQ(bound("a", 0.1f, 0, false).error, 0);
  // Where signs cancel, the bound is that of the operands.
  EXPECT_GT(bound("a*b-a*b*1", 1.1f, 1.3f, false).error, 5e-8);
  // A result is right to the last place of its type, and no further.
  const RightRange half = RightResults(DataType::kBF16, precise);
  EXPECT_LE(half.high - half.low, precise.value / 128);
  const RightRange fp8 = RightResults(DataType::kF8E4M3, {1000, 1e-3});
  EXPECT_EQ(fp8.low, 448);
  EXPECT_EQ(fp8.high, 448);
  EXPECT_FALSE(fp8.Contains(kNan));
  EXPECT_FALSE(RightResults(DataType::kF32, {kNan, 0}).Contains(1));
}

}  // namespace
}  // namespace hone
