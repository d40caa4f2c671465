import { getTask } from '../../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TIMES } from '../../helpers/cluster.js';
import { grpcClientFor } from '../../../tools/harness/grpc-client.js';
import { legacyClientFor } from '../../../tools/harness/legacy-client.js';
import { Recording, stateName, summaryOf } from '../../helpers/recording.js';
import { expectEnded, expectFollowed, readLog, type TaskLog } from '../../helpers/task-log.js';
import { cluster } from './cluster.js';

const LATEST_MS = TIMES.ttl + TIMES.sweep + LOAD_MS;

/** Replicas that serve gRPC, and version 0.3, each as a process of its own. */
export const grpcReplicas = (): void =>
  describe('Replicas over gRPC', () => {
    it(
      'O28 one that is killed breaks its streams, and clients of both versions hear the end through another',
      async () => {
        const { a, b, c } = cluster;
        const sender = Recording.send(await grpcClientFor(c.url), 'work 60');
        const { id } = await sender.task();
        const modern = Recording.subscribe(await grpcClientFor(b.url), id);
        const old = Recording.subscribe(await legacyClientFor(a.url, { transport: 'GRPC' }), id);
        await Promise.all([modern.task(), old.task()]);
        await cluster.kill('C');
        expect(await sender.ended).toMatchObject({ how: 'failed' });
        const stored = await readLogAfter(modern, id);
        expectEnded(stored, 'FAILED');
        expectFollowed(modern.responses, stored);
        expect((await old.finished(LATEST_MS)).map(summaryOf).at(-1)).toBe('status FAILED');
        expect(stateName(await getTask(await grpcClientFor(a.url), id))).toBe('FAILED');
      },
      SLOW_MS,
    );

    async function readLogAfter(recording: Recording, taskId: string): Promise<TaskLog> {
      await recording.finished(LATEST_MS);
      return readLog(cluster.database, taskId);
    }
  });
