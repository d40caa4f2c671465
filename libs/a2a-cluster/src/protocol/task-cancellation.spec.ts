import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { optionsWith } from '../../../../test/helpers/options.js';
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
    const recovery = { isOn: false };
    const options = optionsWith({ turns: { cancelTimeoutMs: 500 }, streams: { pollIntervalMs: 500 } });
    const parts = [tasks, stream, turns, recovery, options] as never;
    const cancellation = new TaskCancellation(...(parts as ConstructorParameters<typeof TaskCancellation>));
    const canceling = cancellation.cancel(scope, 'c', new ServerCallContext());
    await expect(canceling).rejects.toBeInstanceOf(TaskNotFoundError);
  });
});
