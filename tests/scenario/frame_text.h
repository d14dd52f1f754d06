// A frame as a line that a person can read, for transcripts.
#ifndef SHOAL_TESTS_SCENARIO_FRAME_TEXT_H_
#define SHOAL_TESTS_SCENARIO_FRAME_TEXT_H_

#include <cstddef>
#include <span>
#include <string>

namespace shoal {

// A note, or the header of a payload. Says "malformed: ..." of what is no frame. Watermarks stand in brackets at the
// end, where they are not 0. Pure.
std::string FrameText(std::span<const std::byte> frame);

}  // namespace shoal

#endif  // SHOAL_TESTS_SCENARIO_FRAME_TEXT_H_
