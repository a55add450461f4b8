from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from native_engine.text.stops import StopMatcher


def run(stops: list[str], pieces: list[str]) -> tuple[list[str], str | None]:
    """What a client would see, piece by piece, and the stop string that ended it."""
    matcher, shown = StopMatcher(stops), []
    for piece in pieces:
        text, stopped = matcher.push(piece)
        shown.append(text)
        if stopped is not None:
            return shown, stopped
    return [*shown, matcher.flush()], None


def test_without_stop_strings_text_passes_at_once() -> None:
    assert run([], ["a", "b"]) == (["a", "b", ""], None)


def test_a_stop_string_inside_one_piece_cuts_before_it() -> None:
    assert run(["END"], ["one END two"]) == (["one "], "END")


def test_a_stop_string_across_many_pieces_never_shows_its_beginning() -> None:
    assert run(["\n\nUser:"], ["Hi", "\n", "\nUs", "er", ": x"]) == (["Hi", "", "", "", ""], "\n\nUser:")


def test_a_false_beginning_is_shown_as_soon_as_it_cannot_become_a_stop() -> None:
    assert run(["</s>"], ["a<", "/", "b"]) == (["a", "", "</b", ""], None)


def test_a_beginning_left_at_the_end_is_text() -> None:
    assert run(["stop"], ["do st"]) == (["do ", "st"], None)


def test_a_failed_match_may_hold_the_start_of_the_next() -> None:
    assert run(["aab"], ["aa", "ab", "!"]) == (["", "a"], "aab")


def test_the_stop_string_completed_first_wins_whatever_the_pieces() -> None:
    for pieces in (["xabcd"], list("xabcd"), ["xab", "cd"]):
        shown, stopped = run(["abcd", "bc"], pieces)
        assert ("".join(shown), stopped) == ("xa", "bc")


def test_of_two_completed_together_the_longer_wins() -> None:
    shown, stopped = run(["c", "abc"], list("xabc"))
    assert ("".join(shown), stopped) == ("x", "abc")


def test_a_stop_string_of_wide_characters_is_found() -> None:
    assert run(["終わり。"], ["これで終", "わり", "。はい"]) == (["これで", "", ""], "終わり。")


def reference(stops: list[str], text: str) -> tuple[str, str | None]:
    for end in range(1, len(text) + 1):
        done = [stop for stop in stops if text[:end].endswith(stop)]
        if done:
            longest = max(done, key=len)
            return text[: end - len(longest)], longest
    return text, None


few_letters = st.text(alphabet="ab<", min_size=1, max_size=5)


@given(st.lists(few_letters, max_size=4), st.lists(st.text(alphabet="ab<", max_size=4), max_size=12))
def test_any_cutting_gives_what_a_search_of_the_whole_gives(stops: list[str], pieces: list[str]) -> None:
    shown, stopped = run(stops, pieces)
    assert ("".join(shown), stopped) == reference(stops, "".join(pieces))


@given(st.lists(few_letters, min_size=1, max_size=4), st.lists(st.text(alphabet="ab<", max_size=4), max_size=12))
def test_what_is_held_back_is_only_a_beginning_of_a_stop_string(stops: list[str], pieces: list[str]) -> None:
    matcher, seen, shown = StopMatcher(stops), "", ""
    for piece in pieces:
        text, stopped = matcher.push(piece)
        if stopped is not None:
            return
        seen, shown = seen + piece, shown + text
        held = seen[len(shown) :]
        assert not held or any(stop.startswith(held) for stop in stops)
