import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Heartbeat, type HeldLease, type LeaseHolder } from './heartbeat.js';
import { optionsWith } from '../../../../test/helpers/options.js';
import { type ClaimedLease, LeaseStore, type RenewedLease } from './lease-store.js';

const TTL_MS = 9_000;
const INTERVAL_MS = 3_000;

/** From one renewal to the next, to one beside it that has no answer, and to the next try at the latest. */
const EVERY_MS = TTL_MS * 0.05;
const SECOND_TRY_AFTER_MS = TTL_MS * 0.025;
const RETRY_MS = TTL_MS * 0.015;

type Renewal = (generations: readonly number[], timeoutMs: number) => Promise<RenewedLease[] | undefined>;

const held = (generations: readonly number[]): Promise<RenewedLease[]> =>
  Promise.resolve(generations.map((generation) => ({ generation, cancelRequested: false })));
const failing: Renewal = () => Promise.reject(new Error('the database is away'));
const silent: Renewal = () => new Promise(() => undefined);
/** Silent too, but for the error at the end of the time that it is given. */
const hanging: Renewal = (_generations, timeoutMs) =>
  new Promise((_, reject) => setTimeout(() => reject(new Error('no answer')), timeoutMs));

/** Renewals as a test says; what is asked is kept. */
class FakeLeaseStore extends LeaseStore {
  renewal: Renewal = held;
  readonly asked: { holder: string; generations: number[]; ttlMs: number }[] = [];
  readonly timeouts: number[] = [];
  underWay = 0;
  mostUnderWay = 0;

  override renew(
    holder: string,
    generations: readonly number[],
    ttlMs: number,
    timeoutMs: number,
  ): Promise<RenewedLease[] | undefined> {
    this.asked.push({ holder, generations: [...generations], ttlMs });
    this.timeouts.push(timeoutMs);
    this.underWay += 1;
    this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
    return this.renewal(generations, timeoutMs).finally(() => (this.underWay -= 1));
  }

  /** Renewals of something. */
  get renewals(): number {
    return this.asked.filter(({ generations }) => generations.length > 0).length;
  }

  override claim = (): Promise<ClaimedLease[]> => Promise.resolve([]);
  override begin = (): Promise<boolean> => Promise.resolve(true);
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

  const heartbeatEvery = (heartbeatIntervalMs: number): Heartbeat =>
    new Heartbeat(leases, optionsWith({ leases: { heartbeatIntervalMs, ttlMs: TTL_MS } }));

  beforeEach(() => {
    Logger.overrideLogger(false);
    jest.useFakeTimers();
    leases = new FakeLeaseStore();
    heartbeat = heartbeatEvery(INTERVAL_MS);
  });

  afterEach(async () => {
    const stopped = heartbeat.stop();
    await jest.advanceTimersByTimeAsync(1_000); // what has no answer is not waited for any longer
    await stopped;
    await jest.advanceTimersByTimeAsync(TTL_MS); // the store's own timers
    expect(jest.getTimerCount()).toBe(0);
    jest.useRealTimers();
  });

  /** Started, and known to the store: nothing happens until something is held and the next renewal is due. */
  const started = async (): Promise<void> => {
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(0);
    leases.asked.length = 0;
  };

  const hold = (generation: number, sentAt = performance.now()): { turn: Turn; lease: HeldLease } => {
    const turn = new Turn();
    return { turn, lease: heartbeat.hold(generation, sentAt, turn) };
  };

  it('I6 renews all leases together, five times in an interval at the least, from the time it was sent on', async () => {
    await started();
    const { lease: first } = hold(1);
    const { lease: second } = hold(2);
    await jest.advanceTimersByTimeAsync(2 * EVERY_MS);
    const asked = { holder: heartbeat.holderId, generations: [1, 2], ttlMs: TTL_MS };
    expect(leases.asked).toEqual([asked, asked]);
    const deadline = performance.now() + TTL_MS * 0.9;
    expect([first.deadline, second.deadline]).toEqual([deadline, deadline]);
    await jest.advanceTimersByTimeAsync(INTERVAL_MS - 2 * EVERY_MS);
    expect(leases.asked.length).toBeGreaterThanOrEqual(5);
    expect(leases.mostUnderWay).toBe(1);
  });

  it('C20 renews more often than that where the interval is shorter', async () => {
    heartbeat = heartbeatEvery(1_000);
    await started();
    hold(1);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(leases.renewals).toBe(5);
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

  it.each([
    ['at all', silent],
    ['in the time that they are given', hanging],
  ])(
    'O33 renewals that are not answered %s: the same, with three of them under way at most',
    async (_name, renewal) => {
      const { turn } = hold(1);
      leases.renewal = renewal;
      heartbeat.start();
      await jest.advanceTimersByTimeAsync(TTL_MS);
      expect(turn.lost).toHaveLength(1);
      expect(turn.lost[0]!.at).toBeLessThan(TTL_MS + performance.now());
      if (renewal === hanging) expect(leases.mostUnderWay).toBe(3);
    },
  );

  it('O33 one failed renewal alone: nothing happens but an early second try', async () => {
    await started();
    const { turn, lease } = hold(1);
    leases.renewal = failing;
    await jest.advanceTimersByTimeAsync(EVERY_MS);
    expect(leases.asked).toHaveLength(1);
    leases.renewal = held;
    await jest.advanceTimersByTimeAsync(RETRY_MS);
    expect(leases.asked).toHaveLength(2);
    await jest.advanceTimersByTimeAsync(10 * TTL_MS);
    expect(turn.lost).toEqual([]);
    expect(lease.isLive()).toBe(true);
  });

  it('B11 a renewal may take as long as the first deadline of what it renews allows', () => {
    hold(1);
    hold(2, performance.now() - 2_000);
    leases.renewal = hanging;
    void heartbeat.runOnce();
    expect(leases.timeouts).toEqual([TTL_MS * 0.9 - 2_000]);
  });

  /** Renewals that a test answers, the oldest first. */
  const answeredByHand = (): (() => void)[] => {
    const answers: (() => void)[] = [];
    leases.renewal = (generations) =>
      new Promise((resolve) => answers.push(() => void held(generations).then(resolve)));
    return answers;
  };

  it('B11 while a renewal has no answer others go out beside it, three at once at most', async () => {
    await started();
    const { turn } = hold(1);
    const answers = answeredByHand();
    await jest.advanceTimersByTimeAsync(EVERY_MS);
    expect(answers).toHaveLength(1);
    await jest.advanceTimersByTimeAsync(SECOND_TRY_AFTER_MS + 1);
    expect(answers).toHaveLength(2);
    await jest.advanceTimersByTimeAsync(TTL_MS * 0.5);
    expect(answers.length).toBeGreaterThan(10); // those beside it are given up early, for fresh ones
    expect(turn.lost).toEqual([]);
  });

  it('B11 any that is accepted counts, from when it was sent; a late answer moves no deadline back', async () => {
    await started();
    const { lease, turn } = hold(1);
    const answers = answeredByHand();
    await jest.advanceTimersByTimeAsync(EVERY_MS);
    const firstSentAt = performance.now();
    await jest.advanceTimersByTimeAsync(SECOND_TRY_AFTER_MS + 1);
    const secondSentAt = performance.now() - 1;
    answers[1]!();
    await jest.advanceTimersByTimeAsync(0);
    expect(lease.deadline).toBeGreaterThan(firstSentAt + TTL_MS * 0.9);
    expect(lease.deadline).toBeLessThanOrEqual(secondSentAt + 1 + TTL_MS * 0.9);
    const { deadline } = lease;
    answers[0]!();
    await jest.advanceTimersByTimeAsync(0);
    expect(lease.deadline).toBe(deadline);
    expect(turn.lost).toEqual([]);
  });

  it('B11 the answer of one that was given up counts all the same', async () => {
    await started();
    const { lease } = hold(1);
    const answers = answeredByHand();
    await jest.advanceTimersByTimeAsync(EVERY_MS + SECOND_TRY_AFTER_MS + 1);
    const sentAt = performance.now();
    await jest.advanceTimersByTimeAsync(SECOND_TRY_AFTER_MS * 3);
    answers[1]!(); // long after its time
    await jest.advanceTimersByTimeAsync(0);
    expect(lease.deadline).toBeGreaterThanOrEqual(sentAt + TTL_MS * 0.9 - 1);
  });

  const OUTAGES: [string, Renewal][] = [
    ['refuses', failing],
    ['is silent', hanging],
    ['is silent and forgets no call', silent],
  ];

  it.each(OUTAGES)('C20 a database that %s for 0.8 TTL loses no lease, whenever that begins', async (_how, away) => {
    for (const intervalMs of [TTL_MS / 4, TTL_MS / 3, TTL_MS / 20]) {
      for (let phase = 0; phase < 20; phase += 1) {
        heartbeat = heartbeatEvery(intervalMs);
        leases.renewal = held;
        await started();
        const { turn, lease } = hold(1);
        await jest.advanceTimersByTimeAsync(TTL_MS + (EVERY_MS * phase) / 20);
        leases.renewal = away;
        await jest.advanceTimersByTimeAsync(TTL_MS * 0.8);
        leases.renewal = held;
        await jest.advanceTimersByTimeAsync(TTL_MS * 2);
        expect({ intervalMs, phase, lost: turn.lost }).toEqual({ intervalMs, phase, lost: [] });
        lease.drop();
        const stopped = heartbeat.stop();
        await jest.advanceTimersByTimeAsync(TTL_MS);
        await stopped;
      }
    }
  });

  it('C20 an outage that does not end loses it at 0.9 TTL', async () => {
    await started();
    const { turn } = hold(1);
    leases.renewal = hanging;
    const sentAt = performance.now();
    await jest.advanceTimersByTimeAsync(TTL_MS * 0.9 - 1);
    expect(turn.lost).toEqual([]);
    await jest.advanceTimersByTimeAsync(10);
    expect(turn.lost[0]!.at - sentAt).toBeLessThan(TTL_MS * 0.9 + 5);
  });

  it('B10 a renewal whose leases could not be seen keeps what was live until then, and nothing else', async () => {
    const { turn: live, lease } = hold(1);
    const { turn: over } = hold(2, performance.now() - TTL_MS * 0.9);
    leases.renewal = () => Promise.resolve(undefined);
    const sentAt = performance.now();
    expect(await heartbeat.runOnce()).toBe(true);
    await jest.advanceTimersByTimeAsync(TTL_MS * 0.9 - 1);
    expect(lease.deadline).toBe(sentAt + TTL_MS * 0.9);
    expect(live.lost).toEqual([]);
    expect(over.lost.map(({ detail }) => detail)).toEqual(['it could not be renewed in time']);
  });

  /**
   * A renewal that was sent in time and accepted, whose answer lies in its socket when the deadline comes: that is read once
   * the timers have fired, before immediates.
   */
  async function answeredUnread() {
    const { turn, lease } = hold(1);
    await jest.advanceTimersByTimeAsync(TTL_MS * 0.1);
    leases.renewal = (generations) =>
      new Promise((resolve) =>
        setTimeout(() => setImmediate(() => void held(generations).then(resolve)), TTL_MS * 0.8 + 1),
      );
    const renewing = heartbeat.runOnce();
    await jest.advanceTimersByTimeAsync(TTL_MS * 0.8 - 1);
    return { turn, lease, renewing };
  }

  it('B8 a renewal whose answer lies in its socket is read before the lease is given up', async () => {
    const { turn, lease, renewing } = await answeredUnread();
    await jest.advanceTimersByTimeAsync(5);
    expect(await renewing).toBe(true);
    expect(turn.lost).toEqual([]);
    expect(lease.isLive()).toBe(true);
  });

  it('B8 and before a step that asks is told that it is not live', async () => {
    const { lease, renewing } = await answeredUnread();
    let asked: { before: boolean; confirmed: Promise<boolean> } | undefined;
    setTimeout(() => (asked = { before: lease.isLive(), confirmed: lease.confirm() }), 2);
    await jest.advanceTimersByTimeAsync(5);
    expect([asked!.before, await asked!.confirmed]).toEqual([false, true]);
    await renewing;
  });

  it('B8 where nothing has arrived it is given up, and a step that asks is told so', async () => {
    const { turn, lease } = hold(1);
    leases.renewal = silent;
    void heartbeat.runOnce();
    expect(await lease.confirm()).toBe(true);
    await jest.advanceTimersByTimeAsync(TTL_MS);
    expect(turn.lost).toHaveLength(1);
    expect(await Promise.all([lease.confirm(), jest.advanceTimersByTimeAsync(1)])).toEqual([false, undefined]);
  });

  /** The process stands still for a TTL, and its timers fire after that. */
  async function afterStandstill(renewal: Renewal) {
    const { turn, lease } = hold(1);
    leases.renewal = renewal;
    await jest.advanceTimersByTimeAsync(TTL_MS * 0.9 - 1);
    const clock = performance.now.bind(performance);
    jest.spyOn(performance, 'now').mockImplementation(() => clock() + TTL_MS);
    await jest.advanceTimersByTimeAsync(1_100);
    jest.restoreAllMocks();
    return { turn, lease };
  }

  it('B12 after a standstill one renewal is asked for before a lease is given up', async () => {
    const { turn, lease } = await afterStandstill(held);
    expect(leases.asked).toHaveLength(1);
    expect(turn.lost).toEqual([]);
    expect(lease.isLive()).toBe(true);
  });

  it.each<[string, Renewal]>([
    ['has no answer', silent],
    ['fails', failing],
    ['cannot see the leases', () => Promise.resolve(undefined)],
  ])('B12 where that renewal %s it is given up within a second', async (_how, renewal) => {
    const { turn } = await afterStandstill(renewal);
    expect(turn.lost.map(({ detail }) => detail)).toEqual(['it could not be renewed in time']);
  });

  it('B12 a question that fails at once, as connections do that were closed meanwhile, is asked again', async () => {
    let asked = 0;
    const { turn, lease } = await afterStandstill((generations, timeoutMs) => {
      asked += 1;
      return asked < 3 ? failing(generations, timeoutMs) : held(generations);
    });
    expect(asked).toBe(3);
    expect(turn.lost).toEqual([]);
    expect(lease.isLive()).toBe(true);
  });

  it('B12 a standstill that ends just after the deadline is told by the renewal that was due in it', async () => {
    const { turn, lease } = hold(1);
    heartbeat.start();
    leases.renewal = failing;
    await jest.advanceTimersByTimeAsync(TTL_MS / 2);
    const { deadline } = lease;
    const clock = performance.now.bind(performance);
    jest.spyOn(performance, 'now').mockImplementation(() => Math.max(clock(), deadline + 10));
    leases.renewal = (generations, timeoutMs) =>
      clock() > deadline ? held(generations) : failing(generations, timeoutMs);
    await jest.advanceTimersByTimeAsync(TTL_MS / 2);
    jest.restoreAllMocks();
    expect(turn.lost).toEqual([]);
    expect(lease.isLive()).toBe(true);
  });

  it('I3 the deadline counts from when the renewal was sent, not from when it was answered', async () => {
    const { turn } = hold(1);
    const answers = answeredByHand();
    void heartbeat.runOnce();
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

  it('tells the store that it is there when it starts, until it is heard, and is quiet while it holds nothing', async () => {
    leases.renewal = failing;
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(RETRY_MS);
    leases.renewal = held;
    await jest.advanceTimersByTimeAsync(RETRY_MS);
    const asked = leases.asked.length;
    expect(asked).toBeGreaterThanOrEqual(2);
    expect(leases.asked.at(-1)).toEqual({ holder: heartbeat.holderId, generations: [], ttlMs: TTL_MS });
    await jest.advanceTimersByTimeAsync(10 * TTL_MS);
    expect(leases.asked).toHaveLength(asked);
  });

  it('starts once, and stops for good', async () => {
    hold(1);
    heartbeat.start();
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(EVERY_MS - 1);
    expect(leases.asked).toHaveLength(1);
    await heartbeat.stop();
    heartbeat.start();
    await jest.advanceTimersByTimeAsync(5 * TTL_MS);
    expect(leases.asked).toHaveLength(1);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('B14 a stop does not wait for a database that does not answer', async () => {
    hold(1);
    leases.renewal = silent;
    void heartbeat.runOnce();
    const stopped = heartbeat.stop();
    await jest.advanceTimersByTimeAsync(1_000);
    await stopped;
    expect(jest.getTimerCount()).toBe(0);
  });
});
