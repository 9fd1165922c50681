"use strict";
// The page reads well without this script; it adds switches, maps and tips. Everything from the data is put in as text, never as markup.
(() => {
  const root = document.documentElement;
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const read = (id) => { const found = document.getElementById(id); return found && JSON.parse(found.textContent); };
  const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* a private window keeps nothing */ } };
  const remembered = (key) => { try { return localStorage.getItem(key); } catch { return null; } };

  // language
  const titles = read("titles");
  each("[data-zh-label]", (node) => { node.dataset.enLabel = node.getAttribute("aria-label"); });
  const speak = (language) => {
    const chinese = language.startsWith("zh");
    root.lang = chinese ? "zh-Hans" : "en";
    document.title = titles[chinese ? 1 : 0];
    each("[data-zh-label]", (node) => node.setAttribute("aria-label", chinese ? node.dataset.zhLabel : node.dataset.enLabel));
  };
  speak(remembered("twoviews-language") || navigator.language || "en");
  document.getElementById("language").addEventListener("click", () => {
    const next = root.lang === "en" ? "zh-Hans" : "en";
    remember("twoviews-language", next);
    speak(next);
  });

  // light or dark: the system's choice until a person chooses
  const theme = remembered("twoviews-theme");
  if (theme) root.dataset.theme = theme;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember("twoviews-theme", root.dataset.theme);
  });

  // blocks of which one is shown
  const show = (name, choice) => each("." + name, (block) => { block.hidden = block.dataset.choice !== choice; });
  each("fieldset[data-shows]", (field) => field.addEventListener("change", (event) => show(field.dataset.shows, event.target.value)));
  each("select[data-shows]", (select) => {
    show(select.dataset.shows, select.value);
    select.addEventListener("change", () => show(select.dataset.shows, select.value));
  });

  // a table that is wider than its place says so
  const watch = new ResizeObserver((seen) => seen.forEach(({ target }) => target.classList.toggle("scrolls", target.scrollWidth > target.clientWidth + 2)));
  each(".wide", (block) => watch.observe(block));

  // maps
  const data = read("map-data");
  if (!data) return;
  const SVG = "http://www.w3.org/2000/svg";
  // marks and colors differ, so that neither is needed alone; colors of Okabe and Ito 2008
  const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f"];
  const RAMP = ["#c6dbef", "#9ecae1", "#6baed6", "#3182bd", "#08519c"];
  const MARKS = ["M14 0A14 14 0 1 1 -14 0A14 14 0 1 1 14 0Z", "M-13-13H13V13H-13Z", "M0-17L16 12H-16Z", "M0-18L18 0L0 18L-18 0Z",
    "M-5-16H5V-5H16V5H5V16H-5V5H-16V-5H-5Z", "M0 17L16-12H-16Z", "M-15-8L-8-15L0-7L8-15L15-8L7 0L15 8L8 15L0 7L-8 15L-15 8L-7 0Z"];
  const choose = (name) => document.getElementById("map-" + name);
  const maps = [...document.querySelectorAll("svg.map")];
  const tip = document.getElementById("tip");
  const columns = Number(getComputedStyle(root).getPropertyValue("--columns"));

  const style = (factor, number) => number < 0 ? { color: "#9a9a9a", mark: MARKS[0] } : factor.ordered ? { color: RAMP[number], mark: MARKS[0] }
    : { color: COLORS[number % COLORS.length], mark: MARKS[number % MARKS.length] };
  const drawMark = (look) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", look.mark);
    path.setAttribute("fill", look.color);
    return path;
  };
  const place = (map, image) => {
    const places = data.places[choose("run").value][map.dataset.space][choose("method").value];
    return [places[2 * image], 750 - places[2 * image + 1]];
  };

  const draw = () => {
    const factor = data.factors[choose("factor").value];
    const legend = choose("legend");
    legend.replaceChildren(...factor.classes.map((name, number) => {
      const item = document.createElement("li");
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", "-20 -20 40 40");
      svg.setAttribute("aria-hidden", "true");
      svg.append(drawMark(style(factor, number)));
      item.append(svg, document.createTextNode(name));
      return item;
    }));
    for (const map of maps) {
      map.replaceChildren(...factor.of.map((number, image) => {
        const path = drawMark(style(factor, number));
        const [x, y] = place(map, image);
        path.setAttribute("class", "dot-mark");
        path.setAttribute("transform", `translate(${x} ${y})`);
        return path;
      }));
      const ring = document.createElementNS(SVG, "circle");
      ring.setAttribute("class", "ring");
      ring.setAttribute("r", "26");
      map.append(ring);
    }
    rest();
  };

  let chosen = -1;
  const rest = () => { chosen = -1; tip.hidden = true; each(".map .ring", (ring) => { ring.style.display = "none"; }); };
  const pick = (map, image) => {
    if (image === chosen && !tip.hidden) return;
    rest();
    chosen = image;
    for (const other of maps) {
      const ring = other.querySelector(".ring");
      ring.setAttribute("transform", `translate(${place(other, image).join(" ")})`);
      ring.style.display = "";
    }
    const tile = data.tiles[image];
    tip.querySelector(".tile").style.setProperty("--c", tile % columns);
    tip.querySelector(".tile").style.setProperty("--r", Math.floor(tile / columns));
    tip.querySelector(".tip-words").textContent = data.labels[image];
    tip.hidden = false;
    const box = map.children[image].getBoundingClientRect();
    const left = box.right + 12 + tip.offsetWidth > innerWidth ? box.left - 12 - tip.offsetWidth : box.right + 12;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(box.top - tip.offsetHeight / 2, innerHeight - tip.offsetHeight - 4))}px`;
  };

  const nearest = (map, x, y, allowed) => {
    let best = -1, least = Infinity;
    for (let image = 0; image < data.tiles.length; image++) {
      const [left, top] = place(map, image);
      const far = allowed(left - x, top - y);
      if (far !== null && far < least) { least = far; best = image; }
    }
    return [best, least];
  };
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  for (const map of maps) {
    const point = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
      const [image, far] = nearest(map, at.x, at.y, (dx, dy) => Math.hypot(dx, dy));
      if (far < 60) pick(map, image); else rest();
    };
    map.addEventListener("pointermove", point);
    map.addEventListener("pointerdown", point);
    map.addEventListener("pointerleave", rest);
    map.addEventListener("blur", rest);
    map.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { rest(); return; }
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      if (chosen < 0) { pick(map, nearest(map, 500, 375, (dx, dy) => Math.hypot(dx, dy))[0]); return; }
      const [x, y] = place(map, chosen);
      // ahead counts once, sideways twice, so that an arrow goes on roughly where it points
      const [next] = nearest(map, x, y, (dx, dy) => {
        const ahead = dx * step[0] + dy * step[1];
        return ahead > 0.5 ? ahead + 2 * Math.abs(dx * step[1] + dy * step[0]) : null;
      });
      if (next >= 0) pick(map, next);
    });
  }
  for (const name of ["run", "factor", "method"]) choose(name).addEventListener("change", draw);
  draw();
})();
