// Colours of classes: eight that colour-blind people can tell apart (Okabe and Ito), then hues by the golden angle.

import { NONE, classOf } from "/page/store.js";

const BASE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a200", "#7a5cc4"];

export function colourOf(number) {
  if (number === NONE) return "#8a8f98";
  if (number < 0) return "#b6bcc4";
  const own = classOf(number);
  if (own && own.colour) return own.colour;
  if (number < BASE.length) return BASE[number];
  const hue = (number * 137.508) % 360, ring = Math.floor(number / 8) % 3;
  return fromHsl(hue, [62, 48, 70][ring], [46, 60, 38][ring]);
}

function fromHsl(hue, saturation, light) {
  const s = saturation / 100, l = light / 100, a = s * Math.min(l, 1 - l);
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)))).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

export const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
