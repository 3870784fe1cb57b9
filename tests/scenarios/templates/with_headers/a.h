#pragma once

#include "b.h"

__device__ inline float Add(float value) { return value + kAddend; }
