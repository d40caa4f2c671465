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

    it(
      'O45 SIGTERM with open streams: FAILED for everybody, and the process ends by itself',
      async () => {
        const d = await cluster.add('D');
        const client = await grpcClientFor(d.url);
        const sender = Recording.send(client, 'work 60');
        const { id } = await sender.task();
        const subscribers = [
          Recording.subscribe(await legacyClientFor(d.url, { transport: 'GRPC' }), id),
          Recording.subscribe(await grpcClientFor(cluster.b.url), id),
        ];
        await Promise.all(subscribers.map((recording) => recording.task()));
        expect(await d.process.stop(TIMES.drain + TIMES.cancel + LOAD_MS)).toBe(0);
        expectEnded(await readLogAfter(sender, id), 'FAILED');
        for (const recording of [sender, ...subscribers]) {
          expect((await recording.finished()).map(summaryOf).at(-1)).toBe('status FAILED');
        }
      },
      SLOW_MS,
    );

    async function readLogAfter(recording: Recording, taskId: string): Promise<TaskLog> {
      await recording.finished(LATEST_MS);
      return readLog(cluster.database, taskId);
    }
  });
