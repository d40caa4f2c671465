import 'reflect-metadata';
import { writeFile } from 'node:fs/promises';
import { parseArguments, UsageError } from './arguments.js';
import { updateDocs } from './docs.js';
import { BenchEnvironment } from './environment.js';
import { machineFacts } from './machine.js';
import { Measurements } from './measurements.js';
import { BOUND_HEAD, type BenchResult, boundRows, MEASURE_HEAD, measureRows, resultOf } from './report.js';
import { textTable } from './table.js';
import type { Workload } from './workload.js';
import { WORKLOADS } from './workloads/index.js';

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const tell = (text: string): void => void process.stderr.write(`${text}\n`);

const detailOf = (error: unknown): string => (error instanceof Error ? String(error.stack) : String(error));

async function main(): Promise<void> {
  const names = WORKLOADS.map(({ name }) => name);
  const { names: wanted, json, docs } = parseArguments(process.argv.slice(2), names);
  if (docs && wanted.length > 0) throw new UsageError('--docs writes the whole table: give no workloads with it');
  const workloads = WORKLOADS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
  const result = await run(workloads);
  print(textTable(MEASURE_HEAD, result.workloads.flatMap(measureRows), [3, 4, 5]));
  print('');
  print(textTable(BOUND_HEAD, result.workloads.flatMap(boundRows), [2]));
  if (docs) await updateDocs(result);
  if (json === true) print(`\n${JSON.stringify(result, null, 2)}`);
  else if (json) await writeFile(json, `${JSON.stringify(result, null, 2)}\n`);
}

async function run(workloads: readonly Workload[]): Promise<BenchResult> {
  const environment = await BenchEnvironment.start(tell);
  const interrupted = (): void => {
    // From here on everything fails for want of the server.
    process.on('uncaughtException', () => undefined);
    void environment.stop().finally(() => process.exit(130));
  };
  process.once('SIGINT', interrupted);
  process.once('SIGTERM', interrupted);
  try {
    const results: BenchResult['workloads'] = [];
    for (const workload of workloads) {
      tell(`${workload.name}  ${workload.title}`);
      const measured = new Measurements();
      const begun = performance.now();
      try {
        await workload.run(environment, measured);
      } catch (error) {
        // The others are worth measuring all the same; its bounds are then not measured, or with fewer rounds.
        tell(`bench: ${workload.name} failed: ${detailOf(error)}`);
        process.exitCode = 1;
      }
      results.push(resultOf(workload, measured.all, (performance.now() - begun) / 1_000));
      tell(`    ${results.at(-1)!.seconds} s`);
    }
    return { machine: machineFacts(environment.postgresVersion), workloads: results };
  } finally {
    await environment.stop();
  }
}

try {
  await main();
} catch (error) {
  tell(`bench: ${error instanceof UsageError ? error.message : detailOf(error)}`);
  process.exitCode = 1;
}
