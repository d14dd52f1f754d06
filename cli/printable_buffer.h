// The one way of text to a terminal: names and reasons come from other processes, and a terminal obeys some of it.
//
// Whatever is unprintable (core/utf8.h) but ends of lines and tabs is passed on as "\x1b", also where the output is a
// file, which may be shown later. One thread.
#ifndef SHOAL_CLI_PRINTABLE_BUFFER_H_
#define SHOAL_CLI_PRINTABLE_BUFFER_H_

#include <ios>
#include <streambuf>
#include <string>

namespace shoal::cli {

class PrintableBuffer : public std::streambuf {
 public:
  // `to` outlives it.
  explicit PrintableBuffer(std::streambuf* to) : to_(to) {}
  ~PrintableBuffer() override { sync(); }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  // False: `to_` does not take it. Keeps the beginning of a character that is not whole yet.
  bool Pass(bool is_all);

  std::streambuf* const to_;
  std::string waiting_;
};

}  // namespace shoal::cli

#endif  // SHOAL_CLI_PRINTABLE_BUFFER_H_
