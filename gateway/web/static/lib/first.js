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

// All scripts come when the page was painted: forty files on their way would be in the way of that. In a tab that nobody
// looks at nothing is painted, and they do not wait for it.
addEventListener("DOMContentLoaded", () => {
  const late = document.getElementById("late");
  const load = () => {
    if (!late.isConnected) return;
    late.remove();
    document.head.append(late.content);
  };
  requestAnimationFrame(() => setTimeout(load));
  setTimeout(load, 300);
});
