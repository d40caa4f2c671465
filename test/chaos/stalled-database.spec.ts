import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { stablePort } from '../../tools/harness/port.js';
import { PostgresServer } from '../../tools/harness/postgres-server.js';
import { onCleanUp } from '../helpers/clean-up.js';
import { getTask, send } from '../../tools/harness/client.js';
import { LOAD_MS, Member, SLOW_MS, TIMES } from '../helpers/cluster.js';
import { PipelinedReads } from '../../tools/harness/pipelined-reads.js';
import { Recording, stateName } from '../helpers/recording.js';
import type { ReplicaEnvironment } from '../../tools/harness/replica-process.js';
import { eventually, within } from '../../tools/harness/wait.js';

/** The sample waits for a connection for 5 s; a statement of the library has 2 s. No time-out is longer. */
const STALL_MS = 7_000;

/** More than a stack has room for, where one of those that gave up is let in by the one before. */
const READS = 10_000;
const STEPS = 40;

/** What a replica may need to close, once its turns have drained and heard of the end. */
const CLOSE_MS = 5_000;

/** The server of all tests would stand still for all of them: these have one of their own. */
describe('A database server that stands still', () => {
  let database: PostgresServer;
  let env: ReplicaEnvironment;

  beforeAll(async () => {
    database = await PostgresServer.start({
      findPort: stablePort,
      folderPrefix: join(process.env.A2A_TEST_RUN_DIR ?? '', 'postgres-own-'),
    });
    onCleanUp(() => database.stop());
    env = {
      DATABASE_URL: await database.createDatabase('stalled'),
      A2A_SWEEP_MS: TIMES.sweep,
      A2A_POLL_MS: TIMES.poll,
      A2A_DRAIN_MS: TIMES.drain,
      A2A_CANCEL_MS: TIMES.cancel,
    };
  }, SLOW_MS);

  afterEach(() => database.thaw());

  it('thousands of reads meanwhile, for longer than every time-out: the process lives, and goes on', async () => {
    const short = { A2A_HEARTBEAT_MS: TIMES.heartbeat, A2A_TTL_MS: TIMES.ttl };
    const { client, process, url } = await Member.start('A', { ...env, ...short });
    const { id } = await send(client, 'ask go on?');
    const reads = new PipelinedReads(url, [{ taskId: id, user: '' }]);
    await database.freeze();
    for (let step = 0; step < STEPS; step += 1) {
      reads.ask(READS / STEPS);
      await pause(STALL_MS / STEPS);
    }
    await database.thaw();
    reads.close();

    const soon = { timeoutMs: SLOW_MS / 3 };
    await eventually(async () => stateName(await getTask(client, id)) === 'INPUT_REQUIRED', soon);
    await eventually(async () => stateName(await send(client, 'say I am here')) === 'COMPLETED', soon);
    expect(await process.stop()).toBe(0);
  });

  it('SIGTERM meanwhile: the executor hears of it after the drain time, and the process ends in time', async () => {
    // Statements may take as long as a heartbeat: who waits for one of them before it aborts is too late.
    const long = { A2A_HEARTBEAT_MS: 20_000, A2A_TTL_MS: 60_000 };
    const { client, process } = await Member.start('A', { ...env, ...long });
    const { id } = await Recording.send(client, 'work 60').task();
    await database.freeze();
    const sentAt = performance.now();
    await process.kill('SIGTERM');
    await process.waitForLine(new RegExp(`^task ${id}: signal aborted: A2A_REPLICA_SHUTDOWN$`), TIMES.drain + LOAD_MS);
    const endsWithin = TIMES.drain + TIMES.cancel + CLOSE_MS + LOAD_MS - (performance.now() - sentAt);
    expect(await within(process.exited, endsWithin, 'the process ends')).toEqual({ code: 0, signal: null });
  });
});
