#include "cli/printable_buffer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/utf8.h"

namespace shoal::cli {
namespace {

constexpr size_t kMostBytesOfCharacter = 4;

// Bytes at the end of `text` of a character whose rest may still come.
size_t UnfinishedLength(const std::string& text) {
  for (size_t length = 1; length < std::min(kMostBytesOfCharacter, text.size() + 1); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return whole > length ? length : 0;
  }
  return 0;
}

}  // namespace

std::streambuf::int_type PrintableBuffer::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char text = traits_type::to_char_type(character);
  return xsputn(&text, 1) == 1 ? character : traits_type::eof();
}

std::streamsize PrintableBuffer::xsputn(const char* text, std::streamsize count) {
  waiting_.append(text, static_cast<size_t>(count));
  return Pass(/*is_all=*/false) ? count : 0;
}

int PrintableBuffer::sync() {
  const bool passed = Pass(/*is_all=*/true);
  return to_->pubsync() == 0 && passed ? 0 : -1;
}

bool PrintableBuffer::Pass(bool is_all) {
  std::string text = std::exchange(waiting_, "");
  if (!is_all) {
    const size_t unfinished = UnfinishedLength(text);
    waiting_ = text.substr(text.size() - unfinished);
    text.erase(text.size() - unfinished);
  }
  const std::string shown = EscapeUnprintable(text, "\n\t");
  return to_->sputn(shown.data(), static_cast<std::streamsize>(shown.size())) ==
         static_cast<std::streamsize>(shown.size());
}

}  // namespace shoal::cli
