// What the service keeps of answers is bounded, and by bytes.
#include "server/reply_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/request_cache.h"

namespace hone {
namespace {

std::shared_ptr<const TunedKernel> KernelOf(size_t bytes) {
  auto artifact = std::make_shared<Artifact>();
  artifact->bytes.assign(bytes, 'x');
  auto kernel = std::make_shared<TunedKernel>();
  kernel->variants.resize(1);
  kernel->variants[0].artifact = std::move(artifact);
  return kernel;
}

grpc::ByteBuffer ReplyOf(size_t bytes) {
  const grpc::Slice slice(std::string(bytes, 'y'));
  return grpc::ByteBuffer(&slice, 1);
}

TEST(ReplyCacheTest, TheOldestGoesWhenTheBytesAreTooMany) {
  ReplyCache cache(100, 2000);
  const auto first = KernelOf(500), second = KernelOf(500), third = KernelOf(500);
  cache.Put(first, 0, ReplyOf(400));
  cache.Put(second, 0, ReplyOf(400));
  cache.Put(second, 0, ReplyOf(400));  // twice is once
  EXPECT_TRUE(cache.Find(first, 0).has_value());
  cache.Put(third, 0, ReplyOf(400));
  EXPECT_FALSE(cache.Find(first, 0).has_value());
  EXPECT_TRUE(cache.Find(second, 0).has_value());
  EXPECT_TRUE(cache.Find(third, 0).has_value());
  EXPECT_FALSE(cache.Find(third, -1).has_value()) << "other inline bytes, another reply";
  const auto huge = KernelOf(5000);
  cache.Put(huge, 0, ReplyOf(1));
  EXPECT_TRUE(cache.Find(huge, 0).has_value()) << "the newest stays";
  EXPECT_FALSE(cache.Find(third, 0).has_value());
}

RequestCache::Entry EntryOf(size_t bytes) {
  auto hit = std::make_shared<KernelCache::Hit>();
  hit->answer.kernel = KernelOf(bytes);
  RequestCache::Entry entry;
  entry.hit = std::move(hit);
  return entry;
}

TEST(RequestCacheTest, IsBoundedByEntriesAndByTheBytesItKeepsAlive) {
  RequestCache cache(3, 2000);
  for (const char* request : {"a", "b", "c", "d"}) cache.Put(request, EntryOf(10));
  EXPECT_EQ(cache.Find("a"), nullptr);
  EXPECT_NE(cache.Find("b"), nullptr);
  cache.Put("b", EntryOf(1500));
  cache.Put("d", EntryOf(1500));
  EXPECT_EQ(cache.Find("b"), nullptr);
  EXPECT_NE(cache.Find("d"), nullptr);
}

TEST(RequestCacheTest, LongRequestsAreNotKept) {
  RequestCache cache(3, 2000);
  const std::string request(10'000, 'r');
  cache.Put(request, EntryOf(10));
  EXPECT_EQ(cache.Find(request), nullptr);
}

}  // namespace
}  // namespace hone
