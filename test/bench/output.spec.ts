import { svgChart } from './chart.js';
import { replaceMarkedSection } from './marked-section.js';
import { Measurements } from './measurements.js';
import { measureRows, resultOf } from './report.js';
import { interleaved } from './rounds.js';
import { figure, markdownTable, textTable } from './table.js';

describe('What the bench writes', () => {
  it('gives figures three digits and sets thousands apart', () => {
    expect([12_345, 999.9, 0.041_23, 0, 1.005].map(figure)).toEqual(['12,300', '1,000', '0.0412', '0', '1']);
    expect(figure(NaN)).toBe('–');
  });

  it('lines tables up', () => {
    expect(textTable(['a', 'bb'], [['long', '7']], [1])).toBe('a     bb\n----  --\nlong   7');
    expect(markdownTable(['a', 'b'], [['x|y', '7']], [1])).toBe('| a    |   b |\n| ---- | --: |\n| x\\|y |   7 |');
  });

  it('puts contenders beside each other, and what was not measured as a dash', () => {
    const measured = new Measurements();
    for (const value of [1, 2, 3]) measured.record('ours', 'turns', 'turns/s', value);
    measured.record('limit', 'turns', 'turns/s', 9);
    const workload = { name: 'W1', title: '', without: {}, bounds: [], charted: [], run: () => Promise.resolve() };
    expect(measureRows(resultOf(workload, measured.all, 1))).toEqual([['W1', 'turns', 'turns/s', '2 (1–3)', '–', '9']]);
  });

  it('draws bars to one scale for each panel, and no markup of a label', () => {
    const bar = (label: string, median: number) => ({
      label,
      kind: label,
      summary: { median, min: median, max: median, rounds: 1 },
    });
    const svg = svgChart([{ title: 'a < b & "c"', unit: 'ms', bars: [bar('ours', 10), bar('limit', 20)] }]);
    const widths = [...svg.matchAll(/<rect x="\d+" y="\d+" width="([\d.]+)"/g)].map(([, width]) => Number(width));
    expect(widths).toHaveLength(2);
    expect(widths[1]! / widths[0]!).toBeCloseTo(2, 1);
    expect(svg).toContain('a &lt; b &amp; &quot;c&quot; (ms)');
  });

  it('replaces what stands between its marks, and refuses a document without them', () => {
    const document = 'before\n<!-- bench -->\nold\n<!-- /bench -->\nafter';
    const replaced = replaceMarkedSection(document, 'bench', 'new');
    expect(replaced).toBe('before\n<!-- bench -->\n\nnew\n\n<!-- /bench -->\nafter');
    expect(replaceMarkedSection(replaced, 'bench', 'new')).toBe(replaced);
    for (const wrong of ['none', '<!-- bench -->', `${document}${document}`]) {
      expect(() => replaceMarkedSection(wrong, 'bench', 'new')).toThrow(/<!-- bench -->/);
    }
  });
});

describe('The rounds of the bench', () => {
  it('begin with another contender each time, and do not count the first', async () => {
    const measured = new Measurements();
    const order: string[] = [];
    await interleaved(2, ['ours', 'peer', 'limit'] as const, measured, (contender, record) => {
      order.push(contender);
      record(contender, 'turns', '', order.length);
      return Promise.resolve();
    });
    expect(order.join(' ')).toBe('ours peer limit peer limit ours limit ours peer');
    expect(measured.find('ours', 'turns')?.values).toEqual([6, 8]);
  });
});
