import { readFile, writeFile } from 'node:fs/promises';
import { svgChart } from './chart.js';
import { replaceMarkedSection } from './marked-section.js';
import { BOUND_HEAD, type BenchResult, boundRows, MEASURE_HEAD, measureRows, panelOf } from './report.js';
import { markdownTable } from './table.js';
import { WORKLOADS } from './workloads/index.js';

const DOCUMENT = 'docs/internals/performance.md';
const CHART = 'docs/internals/performance.svg';

/** Brings the tables and the chart of docs/internals/performance.md up to what was measured. */
export async function updateDocs({ machine, workloads }: BenchResult): Promise<void> {
  const { cores, processor, memoryGiB, node, postgres } = machine;
  // A table for each workload: one of all would be too wide to be read as text.
  const measured = workloads.flatMap((workload) => [
    `**${workload.name}** ${workload.title}`,
    markdownTable(
      MEASURE_HEAD.slice(1),
      measureRows(workload).map((row) => row.slice(1)),
      [2, 3, 4],
    ),
  ]);
  const tables = [
    `Measured on ${cores} cores (${processor}, ${memoryGiB} GiB), Node.js ${node}, PostgreSQL ${postgres}.`,
    markdownTable(BOUND_HEAD, workloads.flatMap(boundRows), [2]),
    'Medians of the rounds, with the smallest and the largest:',
    ...measured,
    '![Medians of the workloads, with the range of the rounds](performance.svg)',
  ].join('\n\n');
  const document = await readFile(DOCUMENT, 'utf8');
  await writeFile(DOCUMENT, replaceMarkedSection(document, 'bench', tables));
  const panels = WORKLOADS.flatMap((workload) => {
    const result = workloads.find(({ name }) => name === workload.name);
    return result && workload.charted.length > 0 ? [panelOf(workload, result)] : [];
  });
  await writeFile(CHART, svgChart(panels));
}
