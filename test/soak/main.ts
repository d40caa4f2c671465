import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CleanUp, takeOverSignals } from '../../tools/harness/clean-up.js';
import { describe, scheduleOf } from './faults/schedule.js';
import { type ChaosOptions, readOptions, USAGE } from './options.js';
import { appendSummary, inWords, sum, violationReport } from './report.js';
import { run } from './run.js';

const cleanUp = new CleanUp();

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const complain = (text: string): void => void process.stderr.write(`${text}\n`);

async function main(options: ChaosOptions): Promise<number> {
  const { seed, replicas, seconds } = options;
  say(`chaos: seed ${seed}, ${replicas} replicas, ${seconds} s`);
  const schedule = scheduleOf(options);
  for (const planned of schedule) say(describe(planned));
  if (options.scheduleOnly) return 0;
  const folder = await mkdtemp(join(tmpdir(), 'a2a-chaos-'));
  let keeps = options.keep;
  cleanUp.add(async () => {
    if (!keeps) await rm(folder, { recursive: true, force: true });
  });
  const { summary, violations, lines, dump } = await run(options, folder, (undo) => cleanUp.add(undo), say);
  say(`faults: ${sum(summary.faults)} (${inWords(summary.faults)})`);
  say(`tasks: ${sum(summary.tasks)} (${inWords(summary.tasks)})`);
  say(`scenarios: ${sum(summary.scenarios)} (${inWords(summary.scenarios)})`);
  say(`checked: ${inWords(summary.checked)}`);
  await appendSummary(options, summary);
  if (violations.length > 0) {
    keeps = true;
    say('');
    for (const line of violationReport(violations, lines, dump)) say(line);
    say(`\nseed ${seed}: ${violations.length} violations; the recording is in ${folder}`);
  } else if (keeps) say(`the recording is in ${folder}`);
  await cleanUp.run();
  say(JSON.stringify(summary));
  return summary.ok ? 0 : 1;
}

/** Whatever goes wrong in here: the run's processes and its database are not left behind. */
process.on('uncaughtException', (error) => {
  complain(error.stack ?? error.message);
  void cleanUp.run().then(() => process.exit(1));
});

takeOverSignals(async (signal, exitCode) => {
  complain(`interrupted by ${signal}`);
  await cleanUp.run();
  process.exit(exitCode);
});
let options: ChaosOptions | undefined;
try {
  options = readOptions(process.argv.slice(2));
  scheduleOf({ ...options, seconds: 1 }); // names the kinds of faults that there are not
} catch (error) {
  complain(error instanceof Error ? error.message : String(error));
  complain(USAGE);
  process.exit(2);
}
try {
  process.exit(await main(options));
} catch (error) {
  complain(error instanceof Error ? (error.stack ?? error.message) : String(error));
  await cleanUp.run();
  process.exit(1);
}
