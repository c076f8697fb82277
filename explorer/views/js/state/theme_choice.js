// Light or dark: what the person chose here, else the host (JupyterLab), else the system.
export function followTheme(root, looks, onchange) {
  const named = (name) => (["light", "dark"].includes(name) ? name : null);
  let chosen = named(looks.get("theme"));
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const lab = document.body.getAttribute("data-jp-theme-light");
    const isDark = lab === null ? system.matches : lab === "false";
    root.dataset.theme = chosen ?? (isDark ? "dark" : "light");
    onchange();
    // JupyterLab hides everything while it changes its theme: what is painted by hand has no size.
    requestAnimationFrame(onchange);
  };
  const observer = new MutationObserver(apply);
  observer.observe(document.body, {attributes: true, attributeFilter: ["data-jp-theme-light"]});
  system.addEventListener("change", apply);
  root.dataset.theme = "light";
  queueMicrotask(apply);
  return {
    toggle() {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      looks.set("theme", chosen);
      apply();
    },
    restore() {
      chosen = named(looks.get("theme"));
      apply();
    },
    stop() {
      observer.disconnect();
      system.removeEventListener("change", apply);
    },
  };
}
