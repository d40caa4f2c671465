import { type BoundCheck, checkBound } from './bounds.js';
import type { Panel } from './chart.js';
import type { MachineFacts } from './machine.js';
import { CONTENDERS, type Contender, type Measurement } from './measurements.js';
import { summarize, type Summary } from './statistics.js';
import { figure, type Row } from './table.js';
import type { Workload } from './workload.js';

/** A workload and what came of it. */
export interface WorkloadResult {
  name: string;
  title: string;
  seconds: number;
  measurements: (Measurement & { summary: Summary })[];
  bounds: BoundCheck[];
}

/** All that a run has found out, as `--json` writes it. */
export interface BenchResult {
  machine: MachineFacts;
  workloads: WorkloadResult[];
}

export function resultOf(workload: Workload, measured: readonly Measurement[], seconds: number): WorkloadResult {
  return {
    name: workload.name,
    title: workload.title,
    seconds: Math.round(seconds),
    measurements: measured.map((it) => ({ ...it, summary: summarize(it.values) })),
    bounds: workload.bounds.map((bound) => checkBound(bound, measured)),
  };
}

export const MEASURE_HEAD: Row = ['', 'measure', 'unit', ...CONTENDERS];
export const BOUND_HEAD: Row = ['', 'bound', 'measured', ''];

/** A row for each metric, a column for each contender: the median, and the range of the rounds behind it. */
export function measureRows({ name, measurements }: WorkloadResult): Row[] {
  const metrics = [...new Map(measurements.map(({ metric, unit }) => [metric, unit]))];
  return metrics.map(([metric, unit]) => {
    const cell = (contender: Contender): string => {
      const found = measurements.find((it) => it.metric === metric && it.contender === contender);
      return found ? ranged(found.summary) : '–';
    };
    return [name, metric, unit, ...CONTENDERS.map(cell)];
  });
}

export const boundRows = ({ name, bounds }: WorkloadResult): Row[] =>
  bounds.map(({ rule, value, verdict }) => [name, rule, value === undefined ? '–' : figure(value), verdict]);

/** What the chart shows of a workload. */
export function panelOf({ charted }: Workload, { name, title, measurements }: WorkloadResult): Panel {
  const shown = charted.flatMap((metric) => measurements.filter((it) => it.metric === metric));
  return {
    title: `${name}: ${title}`,
    unit: [...new Set(shown.map(({ unit }) => unit))].join(', '),
    bars: shown.map(({ metric, contender, summary }) => ({
      label: charted.length > 1 ? `${contender}, ${metric}` : contender,
      kind: contender,
      summary,
    })),
  };
}

const ranged = ({ median, min, max, rounds }: Summary): string =>
  rounds > 1 ? `${figure(median)} (${figure(min)}–${figure(max)})` : figure(median);
