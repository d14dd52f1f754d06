// A visitor of a std::variant made of lambdas, one for each kind of value.
#ifndef SHOAL_CORE_OVERLOADED_H_
#define SHOAL_CORE_OVERLOADED_H_

namespace shoal {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace shoal

#endif  // SHOAL_CORE_OVERLOADED_H_
