#pragma once

constexpr float kAddend = 3.0f;
