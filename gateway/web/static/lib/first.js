// Runs before the page is painted: a chosen theme holds from the first frame. The choice itself is made in theme.js.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("sekisho-theme");
  } catch {
    // Storage is refused: as the system has it.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
