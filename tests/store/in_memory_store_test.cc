#include "tests/testing/in_memory_store.h"

#include "tests/store/kernel_store_contract.h"
#include "tests/store/kernel_store_room_contract.h"
#include "tests/store/served_contract.h"

namespace hone {
namespace {

class InMemoryStoreUnderTest : public StoreUnderTest {
 public:
  KernelStore& store() override { return store_; }
  void Restart() override {}
  void Bound(int64_t bytes_max) override { store_.SetBytesMax(bytes_max); }
  void CorruptArtifact(const std::string& sha256) override { store_.CorruptArtifact(sha256); }

 private:
  InMemoryStore store_;
};

INSTANTIATE_TEST_SUITE_P(InMemory, KernelStoreContract,
                         testing::Values([]() -> std::unique_ptr<StoreUnderTest> {
                           return std::make_unique<InMemoryStoreUnderTest>();
                         }));

TEST(InMemoryStoreTest, FailNextPutFailsExactlyOneWrite) {
  InMemoryStore store;
  store.FailNextPut(absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(store.PutArtifact(SampleKey("a"), SampleArtifact("x")),
              StatusIs(absl::StatusCode::kResourceExhausted, "disk full"));
  EXPECT_EQ(store.GetArtifact(SampleKey("a").id())->has_value(), false);
  EXPECT_THAT(store.PutArtifact(SampleKey("a"), SampleArtifact("x")), IsOk());
  EXPECT_EQ(store.counters().artifact_puts, 2);
}

TEST(InMemoryStoreTest, FailPutsFailsUntilItIsTakenBack) {
  InMemoryStore store;
  store.FailPuts(absl::FailedPreconditionError("read-only"));
  EXPECT_THAT(store.PutTuning(SampleTuning("t")),
              StatusIs(absl::StatusCode::kFailedPrecondition, "read-only"));
  EXPECT_THAT(store.PutLog("log", 0), StatusIs(absl::StatusCode::kFailedPrecondition, "read-only"));
  store.FailPuts(absl::OkStatus());
  EXPECT_THAT(store.PutTuning(SampleTuning("t")), IsOk());
}

}  // namespace
}  // namespace hone
