import type { ChartLine } from './chart-line.ts';
import { download } from './csv.ts';
import type { ThemeColors } from './theme-colors.ts';

/** Heights of the title and the legend, and the margin, in CSS pixels. */
const TITLE = 26;
const LEGEND = 20;
const MARGIN = 12;

/** Downloads the drawn chart in an element as a picture with its title and legend. */
export function savePng(element: HTMLElement, title: string, lines: readonly ChartLine[], colors: ThemeColors): void {
  const drawn = element.querySelector('canvas');
  if (drawn === null) return;
  const scale = drawn.width / drawn.clientWidth;
  const picture = document.createElement('canvas');
  picture.width = drawn.width + 2 * MARGIN * scale;
  picture.height = drawn.height + (TITLE + LEGEND + 2 * MARGIN) * scale;
  const context = picture.getContext('2d')!;
  context.fillStyle = colors.surface;
  context.fillRect(0, 0, picture.width, picture.height);
  context.scale(scale, scale);
  context.textBaseline = 'top';
  context.fillStyle = colors.text;
  context.font = '600 14px system-ui, sans-serif';
  context.fillText(title, MARGIN, MARGIN);
  context.font = '12px system-ui, sans-serif';
  let left = MARGIN;
  for (const { name, color } of lines) {
    context.fillStyle = colors.series[color - 1]!;
    context.fillRect(left, MARGIN + TITLE + 5, 14, 3);
    context.fillStyle = colors.text;
    context.fillText(name, left + 20, MARGIN + TITLE);
    left += context.measureText(name).width + 40;
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(drawn, MARGIN * scale, (MARGIN + TITLE + LEGEND) * scale);
  picture.toBlob((blob) => {
    if (blob !== null) download(`${title.replaceAll(/\W+/g, '-')}.png`, blob, 'image/png');
  });
}
