import type { Bound } from './bounds.js';
import type { BenchEnvironment } from './environment.js';
import type { Contender, Measurements } from './measurements.js';

/** One line of the table: what is done, what is measured, and what has to be reached. */
export interface Workload {
  /** W1, W2, … */
  name: string;
  title: string;
  /** Contenders that there cannot be, and why. */
  without: Partial<Record<Contender, string>>;
  bounds: Bound[];
  /** Metrics that the chart shows. */
  charted: string[];
  run(environment: BenchEnvironment, measured: Measurements): Promise<void>;
}
