/** Who is measured: this library, the SDK's own handler and store, the SQL that cannot be done without. */
export const CONTENDERS = ['ours', 'peer', 'limit'] as const;
export type Contender = (typeof CONTENDERS)[number];

/** One thing that was measured about one contender, with a value for each round. */
export interface Measurement {
  contender: Contender;
  metric: string;
  unit: string;
  values: number[];
}

/** Takes the value of one round; what is measured twice in a round counts as two rounds. */
export type Record = (contender: Contender, metric: string, unit: string, value: number) => void;

/** What a workload has measured, in the order in which it came. */
export class Measurements {
  readonly all: Measurement[] = [];

  readonly record: Record = (contender, metric, unit, value) => {
    const found = this.find(contender, metric);
    if (found) found.values.push(value);
    else this.all.push({ contender, metric, unit, values: [value] });
  };

  find(contender: Contender, metric: string): Measurement | undefined {
    return this.all.find((it) => it.contender === contender && it.metric === metric);
  }
}
