import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Undo } from '../../tools/harness/clean-up.js';
import { stablePort } from '../../tools/harness/port.js';
import { PostgresServer } from '../../tools/harness/postgres-server.js';
import { Observer } from './audit/observer.js';
import { check } from './checker/check.js';
import type { Violation } from './checker/violation.js';
import { Administrator, REPLICA_ROLE } from './cluster/administrator.js';
import { Cluster } from './cluster/cluster.js';
import { type Dump, writeDump } from './dump.js';
import { Injector } from './faults/injector.js';
import { scheduleOf } from './faults/schedule.js';
import type { ChaosOptions } from './options.js';
import { Random } from './random.js';
import { readRecording, Recorder } from './recorder.js';
import type { Line } from './recording.js';
import { countedIn, type RunSummary } from './report.js';
import { TIMES } from './times.js';
import { Clients } from './workload/clients.js';
import { FaultClients } from './workload/fault-clients.js';
import { PushReceivers } from './workload/push-receivers.js';
import { Workload } from './workload/workload.js';

const DATABASE = 'chaos';
const LOOK_MS = 250;

/** A graceful end of a replica: its drain, and what it takes to close. */
const STOP_MS = 15_000;

export interface RunResult {
  readonly summary: RunSummary;
  readonly violations: readonly Violation[];
  readonly lines: readonly Line[];
  readonly dump: Dump;
}

/** One run: a cluster, its users, its faults; then all is healed, and what happened is checked. */
export async function run(
  options: ChaosOptions,
  folder: string,
  undo: (undo: Undo) => void,
  tell: (text: string) => void,
): Promise<RunResult> {
  const recordingPath = join(folder, 'recording.jsonl');
  const recorder = new Recorder(recordingPath);
  undo(() => recorder.close());
  const starting = PostgresServer.start({ findPort: stablePort, folderPrefix: join(tmpdir(), 'a2a-chaos-postgres-') });
  // Also where it is interrupted while it starts; a start that fails leaves nothing behind.
  undo(() => starting.then((database) => database.stop()).catch(() => undefined));
  const database = await starting;
  await database.createDatabaseOf(REPLICA_ROLE, DATABASE);
  // As a superuser, whom no limit of the replicas' role concerns.
  const url = database.url(DATABASE);
  const observer = new Observer(url, recorder);
  const cluster = new Cluster();
  undo(() => cluster.stop(0));
  await cluster.start(database.url(DATABASE, REPLICA_ROLE), options, recorder);
  await observer.install();
  observer.watch();
  undo(() => observer.stop());
  const receivers = await PushReceivers.start(recorder);
  undo(() => receivers.close());
  const clients = new Clients();
  await clients.connect(cluster.replicas, recorder);
  tell(`${options.replicas} replicas serve; faults for ${options.seconds} s`);

  const random = new Random(options.seed).fork();
  const workload = new Workload();
  workload.start(random.fork(), clients, receivers, options.users * options.replicas);
  const errors: string[] = [];
  const administrator = new Administrator(url);
  const faultClients = new FaultClients(random.fork(), clients, recorder);
  const stage = { cluster, database, administrator, recorder, clients: faultClients };
  const injector = new Injector(stage, (error) => errors.push(String(error)));
  undo(() => injector.stop());
  await injector.play(scheduleOf(options), options.seconds * 1000);
  await database.thaw();
  await administrator.lift();
  await cluster.heal();
  tell('healed; waiting for quiet');
  await workload.stop(options.quiet * 1000);
  const quietMs = await untilQuiet(observer, options.quiet * 1000);
  tell(`quiet after ${Math.round(quietMs)} ms`);
  const dump = await observer.dump();
  const codes = await cluster.stop(Math.min(STOP_MS, options.quiet * 1000));
  await observer.stop();
  await recorder.close();

  await writeDump(join(folder, 'dump.jsonl'), dump);
  const lines = await readRecording(recordingPath);
  const crashes = cluster.replicas.flatMap((replica) => replica.crashes);
  const unclean = codes.flatMap((code, at) =>
    code === 0 ? [] : [`replica ${cluster.replicas[at]?.name} stopped: ${code}`],
  );
  const violations: Violation[] = [
    ...check(lines, dump, TIMES),
    ...[...crashes, ...unclean].map((text) => ({ invariant: 'process', text })),
    ...errors.map((text) => ({ invariant: 'run', text: `a fault could not be played: ${text}` })),
  ];
  const { seed, seconds, replicas } = options;
  const summary: RunSummary = {
    ok: violations.length === 0,
    seed,
    seconds,
    replicas,
    faults: injector.played,
    scenarios: workload.played,
    ...countedIn(lines, dump),
    violations: violations.length,
  };
  return { summary, violations, lines, dump };
}

/** Until nothing runs and nobody is behind; what is not quiet by then is for the checker to find. */
async function untilQuiet(observer: Observer, atMostMs: number): Promise<number> {
  const begunAt = performance.now();
  for (;;) {
    const { leases, running, behind } = await observer.unquiet();
    const tookMs = performance.now() - begunAt;
    if (leases + running + behind === 0 || tookMs > atMostMs) return tookMs;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
