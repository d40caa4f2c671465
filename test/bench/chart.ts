import type { Summary } from './statistics.js';
import { figure } from './table.js';

/** Bars that share a scale. */
export interface Panel {
  title: string;
  unit: string;
  bars: { label: string; kind: string; summary: Summary }[];
}

const WIDTH = 760;
const LABEL_WIDTH = 230;
const VALUE_WIDTH = 130;
const BAR_HEIGHT = 16;
const BAR_STEP = 22;
const TITLE_HEIGHT = 30;
const GAP = 16;
const COLORS: Record<string, string> = { ours: '#2563eb', peer: '#d97706', limit: '#6b7280' };

/** Horizontal bars of medians, each with the range of its rounds. Every panel has its own scale, which begins at 0. */
export function svgChart(panels: readonly Panel[]): string {
  const parts: string[] = [];
  let y = GAP;
  for (const panel of panels) {
    parts.push(text(GAP, y + 14, `${panel.title} (${panel.unit})`, { weight: '600' }));
    y += TITLE_HEIGHT;
    const top = Math.max(...panel.bars.map(({ summary }) => summary.max), Number.MIN_VALUE);
    const room = WIDTH - LABEL_WIDTH - VALUE_WIDTH - GAP;
    const at = (value: number): number => LABEL_WIDTH + (Math.max(0, value) / top) * room;
    for (const { label, kind, summary } of panel.bars) {
      const middle = y + BAR_HEIGHT / 2;
      const color = COLORS[kind] ?? '#2563eb';
      parts.push(
        text(LABEL_WIDTH - 8, middle + 4, label, { anchor: 'end' }),
        `<rect x="${LABEL_WIDTH}" y="${y}" width="${number(at(summary.median) - LABEL_WIDTH)}" height="${BAR_HEIGHT}" fill="${color}"/>`,
        `<path d="M${number(at(summary.min))} ${middle}H${number(at(summary.max))}" stroke="#111827" stroke-width="2"/>`,
        text(at(summary.max) + 6, middle + 4, figure(summary.median)),
      );
      y += BAR_STEP;
    }
    y += GAP;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}" font-family="system-ui, sans-serif" font-size="13" fill="#111827">`,
    `<rect width="${WIDTH}" height="${y}" fill="#ffffff"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

function text(x: number, y: number, value: string, { anchor = 'start', weight = '400' } = {}): string {
  return `<text x="${number(x)}" y="${number(y)}" text-anchor="${anchor}" font-weight="${weight}">${escaped(value)}</text>`;
}

const number = (value: number): string => String(Math.round(value * 10) / 10);

const escaped = (value: string): string =>
  value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
