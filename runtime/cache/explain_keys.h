// Why a request hits or misses.
#pragma once

#include "absl/status/statusor.h"
#include "runtime/cache/caching_compiler.h"
#include "runtime/cache/kernel_assembler.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/store/kernel_store.h"

namespace hone {

absl::StatusOr<KeyExplanation> ExplainKeys(const ResolvedRequest& request,
                                           const KernelAssembler& assembler,
                                           CachingCompiler& compiler, KernelStore& store);

}  // namespace hone
