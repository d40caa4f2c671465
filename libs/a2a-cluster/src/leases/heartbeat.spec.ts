import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Heartbeat, type HeldLease, type LeaseHolder } from './heartbeat.js';
import { type ClaimedLease, LeaseStore, type RenewedLease } from './lease-store.js';

const TTL_MS = 9_000;
const INTERVAL_MS = 3_000;

type Renewal = (generations: readonly number[]) => Promise<RenewedLease[]>;

const held: Renewal = (generations) =>
  Promise.resolve(generations.map((generation) => ({ generation, cancelRequested: false })));
const failing: Renewal = () => Promise.reject(new Error('the database is away'));
const silent: Renewal = () => new Promise(() => undefined);

/** Renewals as a test says; what is asked is kept. */
class FakeLeaseStore extends LeaseStore {
  renewal: Renewal = held;
  readonly asked: { holder: string; generations: number[]; ttlMs: number }[] = [];

  override renew(holder: string, generations: readonly number[], ttlMs: number): Promise<RenewedLease[]> {
    this.asked.push({ holder, generations: [...generations], ttlMs });
    return this.renewal(generations);
  }

  override sharesTransactions = (): boolean => true;
  override acquire = (): Promise<undefined> => Promise.resolve(undefined);
  override find = (): Promise<undefined> => Promise.resolve(undefined);
  override requestCancel = (): Promise<void> => Promise.resolve();
  override claim = (): Promise<ClaimedLease[]> => Promise.resolve([]);
  override release = (): Promise<boolean> => Promise.resolve(true);
  override handOver = (): Promise<boolean> => Promise.resolve(true);
  override putBack = (): Promise<boolean> => Promise.resolve(true);
  override inspect = () => Promise.resolve({ cancelRequested: [], lost: [] });
  override close = (): Promise<void> => Promise.resolve();
}

/** What a turn is told, and when. */
class Turn implements LeaseHolder {
  readonly lost: { detail: string; at: number }[] = [];
  cancels = 0;

  onLost(detail: string): void {
    this.lost.push({ detail, at: performance.now() });
  }

  onCancelRequested(): void {
    this.cancels += 1;
  }
}

describe('Heartbeat', () => {
  let leases: FakeLeaseStore;
  let heartbeat: Heartbeat;

  beforeEach(() => {
    Logger.overrideLogger(false);
    jest.useFakeTimers();
    leases = new FakeLeaseStore();
    heartbeat = new Heartbeat(leases, 'me', { heartbeatIntervalMs: INTERVAL_MS, ttlMs: TTL_MS });
  });

  afterEach(async () => {
    const stopped = heartbeat.stop();
    leases.renewal = held;
    await Promise.race([stopped, Promise.resolve()]);
    expect(jest.getTimerCount()).toBe(0);
    jest.useRealTimers();
  });

  const hold = (generation: number, sentAt = performance.now()): { turn: Turn; lease: HeldLease } => {
    const turn = new Turn();
    return { turn, lease: heartbeat.hold(generation, sentAt, turn) };
  };

  it('I6 renews all leases in one statement, every interval, from the time it was sent on', async () => {
    const { lease: first } = hold(1);
    const { lease: second } = hold(2);
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(2 * INTERVAL_MS);
    const asked = { holder: 'me', generations: [1, 2], ttlMs: TTL_MS };
    expect(leases.asked).toEqual([asked, asked]);
    const deadline = performance.now() + TTL_MS * 0.9;
    expect([first.deadline, second.deadline]).toEqual([deadline, deadline]);
  });

  it('O33 renewals that fail: the turn is stopped before its TTL is over', async () => {
    const sentAt = performance.now();
    const { turn, lease } = hold(1, sentAt);
    leases.renewal = failing;
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(TTL_MS * 0.9 - 1);
    expect(turn.lost).toEqual([]);
    expect(lease.isLive()).toBe(true);
    await jest.advanceTimersByTimeAsync(TTL_MS);
    expect(turn.lost).toHaveLength(1);
    expect(turn.lost[0]!.at - sentAt).toBeLessThan(TTL_MS);
    expect(turn.lost[0]!.detail).toBe('it could not be renewed in time');
    expect(lease.isLive()).toBe(false);
    expect(heartbeat.generations).toEqual([]);
  });

  it('O33 renewals that never answer: the same', async () => {
    const { turn } = hold(1);
    leases.renewal = silent;
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(TTL_MS);
    expect(turn.lost).toHaveLength(1);
    expect(leases.asked).toHaveLength(1); // no round overlaps another
  });

  it('O33 one failed renewal alone: nothing happens but an early second try', async () => {
    const { turn, lease } = hold(1);
    leases.renewal = failing;
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(INTERVAL_MS);
    expect(leases.asked).toHaveLength(1);
    leases.renewal = held;
    await jest.advanceTimersByTimeAsync(INTERVAL_MS / 5);
    expect(leases.asked).toHaveLength(2);
    await jest.advanceTimersByTimeAsync(10 * TTL_MS);
    expect(turn.lost).toEqual([]);
    expect(lease.isLive()).toBe(true);
  });

  it('I3 the deadline counts from when the renewal was sent, not from when it was answered', async () => {
    const { turn } = hold(1);
    const answers: (() => void)[] = [];
    leases.renewal = (generations) =>
      new Promise((resolve) => answers.push(() => void held(generations).then(resolve)));
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(INTERVAL_MS);
    const sentAt = performance.now();
    await jest.advanceTimersByTimeAsync(INTERVAL_MS); // the answer takes its time
    answers.shift()!();
    await jest.advanceTimersByTimeAsync(TTL_MS); // and none comes after it
    expect(turn.lost).toHaveLength(1);
    expect(turn.lost[0]!.at).toBeLessThan(sentAt + TTL_MS);
  });

  it('I3 a lease whose acquisition was slow is given up in its own time, whatever was taken before it', async () => {
    const { turn: quick } = hold(1);
    const sentAt = performance.now() - 4_000;
    const { turn: slow } = hold(2, sentAt);
    leases.renewal = failing;
    await jest.advanceTimersByTimeAsync(TTL_MS - 4_000);
    expect(slow.lost).toHaveLength(1);
    expect(slow.lost[0]!.at - sentAt).toBeLessThan(TTL_MS);
    expect(quick.lost).toEqual([]);
  });

  it('I3 a blocked event loop fires no timers: the lease is not live all the same', () => {
    const { lease } = hold(1);
    const now = performance.now();
    jest.spyOn(performance, 'now').mockReturnValue(now + TTL_MS);
    expect(lease.isLive()).toBe(false);
    jest.restoreAllMocks();
  });

  it('I3 a generation that does not come back is lost, the others are not', async () => {
    const [{ turn: gone }, { turn: kept }] = [hold(1), hold(2)];
    leases.renewal = () => held([2]);
    expect(await heartbeat.runOnce()).toBe(true);
    expect(gone.lost.map(({ detail }) => detail)).toEqual(['it was not there to renew']);
    expect(kept.lost).toEqual([]);
    expect(heartbeat.generations).toEqual([2]);
    await heartbeat.runOnce();
    expect(gone.lost).toHaveLength(1); // told once
  });

  it('O21 a lease that was dropped while its renewal was under way is none of anybody’s business', async () => {
    const { turn, lease } = hold(1);
    let answer!: (renewed: RenewedLease[]) => void;
    leases.renewal = () => new Promise((resolve) => (answer = resolve));
    const round = heartbeat.runOnce();
    lease.drop(); // its ending commit has taken it away
    answer([]);
    expect(await round).toBe(true);
    expect(turn.lost).toEqual([]);
  });

  it('I3 a generation taken anew under the same number is not lost by the round before it', async () => {
    const { lease } = hold(1);
    let answer!: (renewed: RenewedLease[]) => void;
    leases.renewal = () => new Promise((resolve) => (answer = resolve));
    const round = heartbeat.runOnce();
    lease.drop();
    const { turn } = hold(1);
    answer([]);
    await round;
    expect(turn.lost).toEqual([]);
    lease.drop(); // of the first one: it drops nothing of the second
    expect(heartbeat.generations).toEqual([1]);
  });

  it('O40 a cancel request comes with the renewal, and the lease is kept', async () => {
    const [{ turn: canceled }, { turn: other }] = [hold(1), hold(2)];
    leases.renewal = (generations) =>
      Promise.resolve(generations.map((generation) => ({ generation, cancelRequested: generation === 1 })));
    await heartbeat.runOnce();
    expect([canceled.cancels, other.cancels]).toEqual([1, 0]);
    expect(heartbeat.generations).toEqual([1, 2]);
  });

  it('O40 a look between two rounds reports the same, and nothing of what was dropped meanwhile', () => {
    const { turn: lost } = hold(1);
    const { turn: canceled } = hold(2);
    const { turn: fine } = hold(3);
    const { turn: dropped, lease } = hold(4);
    lease.drop();
    heartbeat.report([1, 2, 3, 4], { lost: [1, 4], cancelRequested: [2] });
    expect(lost.lost.map(({ detail }) => detail)).toEqual(['another replica has claimed or ended it']);
    expect([canceled.cancels, fine.cancels]).toEqual([1, 0]);
    expect([canceled.lost, fine.lost, dropped.lost]).toEqual([[], [], []]);
  });

  it('sends nothing while it holds nothing, and joins a round that runs', async () => {
    expect(await heartbeat.runOnce()).toBe(true);
    expect(leases.asked).toEqual([]);
    hold(1);
    const first = heartbeat.runOnce();
    expect(heartbeat.runOnce()).toBe(first);
    await first;
    expect(leases.asked).toHaveLength(1);
  });

  it('starts once, and stops for good', async () => {
    hold(1);
    heartbeat.start();
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(INTERVAL_MS);
    expect(leases.asked).toHaveLength(1);
    await heartbeat.stop();
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(5 * TTL_MS);
    expect(leases.asked).toHaveLength(1);
    expect(jest.getTimerCount()).toBe(0);
  });
});
