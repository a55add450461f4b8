// What a screen reader is told: that an answer began, ended or failed, and never its tokens one by one.

const region = document.createElement("div");
region.className = "unseen";
region.setAttribute("role", "status");
document.body.append(region);

export function announce(words) {
  region.textContent = "";
  // Told anew also where the words are those of before: emptied in one turn, filled in the next.
  setTimeout(() => (region.textContent = words), 50);
}
