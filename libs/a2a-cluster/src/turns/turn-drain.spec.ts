import { jest } from '@jest/globals';
import { ConsoleLogger, Logger } from '@nestjs/common';
import type { LeaseStore } from '../leases/lease-store.js';
import type { LeaseWatch } from './lease-watch.js';
import { RunningTurns } from './running-turns.js';
import { optionsWith } from '../../../../test/helpers/options.js';
import { TurnDrain } from './turn-drain.js';
import type { TurnExecution } from './turn-execution.js';

const TIMES = { drainTimeoutMs: 100, cancelTimeoutMs: 2_000 };
const OPTIONS = optionsWith({ turns: TIMES });

/** A replica with one turn that takes so long, in ms, to end once it was stopped and its last look is over. */
function drainOf(endsAfterMs: number) {
  const running = new RunningTurns();
  const turn = {
    lease: { generation: 7 },
    shutDown: (lastLook: Promise<unknown>) =>
      void lastLook.then(() => setTimeout(() => running.delete(turn as never), endsAfterMs)),
  };
  running.add(turn as unknown as TurnExecution);
  const watch = { runOnce: () => Promise.resolve() } as LeaseWatch;
  const handOver = jest.fn(() => Promise.resolve(true));
  const drain = new TurnDrain(running, watch, { handOver } as unknown as LeaseStore, OPTIONS);
  return { drain, handOver };
}

describe('A replica that shuts down', () => {
  beforeEach(() => {
    jest.useFakeTimers();
    Logger.overrideLogger(false);
  });

  afterEach(() => {
    jest.useRealTimers();
    Logger.overrideLogger(new ConsoleLogger());
  });

  it('leaves a turn its lease while the end is stored of a cancel that its executor did not obey', async () => {
    const { drain, handOver } = drainOf(TIMES.cancelTimeoutMs + 100);
    const drained = drain.run();
    await jest.advanceTimersByTimeAsync(TIMES.drainTimeoutMs + TIMES.cancelTimeoutMs + 100);
    await drained;
    expect(handOver).not.toHaveBeenCalled();
  });

  it('gives the lease of a turn up that does not end in time', async () => {
    const { drain, handOver } = drainOf(60_000);
    const drained = drain.run();
    await jest.advanceTimersByTimeAsync(TIMES.drainTimeoutMs + TIMES.cancelTimeoutMs + 500);
    await drained;
    expect(handOver).toHaveBeenCalledWith(7, 0);
  });
});
