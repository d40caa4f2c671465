import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { NoRecovery } from '../turns/abandoned-recovery.js';
import { TaskCancellation } from './task-cancellation.js';

const scope = { tenant: '', owner: 'ann', taskId: 't1' };

describe('A cancel', () => {
  it('I6 of a task that is deleted before CANCELED is forced ends with TaskNotFoundError', async () => {
    const tasks = {
      requestCancel: () => Promise.resolve({ outcome: 'abandoned' }),
      forceEnd: () => Promise.reject(new LeaseLostError('t1', 'the task was deleted')),
    };
    const stream = { closed: new AbortController().signal };
    const turns = { prepare: () => ({}), isDraining: true };
    const parts = [tasks, stream, turns, new NoRecovery(), { cancelTimeoutMs: 500, pollIntervalMs: 500 }] as never;
    const cancellation = new TaskCancellation(...(parts as ConstructorParameters<typeof TaskCancellation>));
    const canceling = cancellation.cancel(scope, 'c', new ServerCallContext());
    await expect(canceling).rejects.toBeInstanceOf(TaskNotFoundError);
  });
});
