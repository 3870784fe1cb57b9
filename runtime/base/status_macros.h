// Propagation of absl::Status and absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function when `expr`, an absl::Status, is not OK.
#define HONE_RETURN_IF_ERROR(expr)                                                   \
  do {                                                                               \
    if (absl::Status hone_status_ = (expr); !hone_status_.ok()) return hone_status_; \
  } while (false)

#define HONE_CONCAT_INNER_(a, b) a##b
#define HONE_CONCAT_(a, b) HONE_CONCAT_INNER_(a, b)

// HONE_ASSIGN_OR_RETURN(auto value, Function());
#define HONE_ASSIGN_OR_RETURN(lhs, expr) \
  HONE_ASSIGN_OR_RETURN_IMPL_(HONE_CONCAT_(hone_status_or_, __LINE__), lhs, expr)

#define HONE_ASSIGN_OR_RETURN_IMPL_(status_or, lhs, expr)    \
  auto status_or = (expr);                                   \
  if (!status_or.ok()) return std::move(status_or).status(); \
  lhs = std::move(status_or).value()
