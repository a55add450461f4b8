// Runs before the page is painted: what was chosen holds from the first frame. The theme is chosen in theme.js, whether
// the chat's list is hidden in chat/main.js; a telephone has no room for it.
{
  const root = document.documentElement;
  let theme = null;
  let hidden = null;
  try {
    theme = localStorage.getItem("sekisho-theme");
    hidden = localStorage.getItem("sekisho-chat-list-hidden");
  } catch {
    // Storage is refused: as the system has it.
  }
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  root.classList.toggle("list-hidden", Boolean(hidden) || matchMedia("(max-width: 50rem)").matches);
}
