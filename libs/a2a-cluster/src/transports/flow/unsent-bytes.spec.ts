import { jest } from '@jest/globals';
import { type Common, type Room, UnsentBytes, type WaitingReader } from './unsent-bytes.js';
import { optionsWith } from '../../../../../test/helpers/options.js';

const STALL_MS = 60_000;
const HURRIED_MS = 5_000;

/** A reader that takes nothing, unless a test says so, and gives back what it holds when it is cut off. */
class TestReader implements WaitingReader {
  taken = 0;
  wasCutOff = false;
  constructor(private readonly rooms: Room[] = []) {}

  cutOff(): void {
    this.wasCutOff = true;
    for (const room of this.rooms) room.release();
  }
}

describe('Unsent bytes', () => {
  let unsent: UnsentBytes;

  beforeEach(() => {
    jest.useFakeTimers();
    unsent = new UnsentBytes(optionsWith({ streams: { maxUnsentBytes: 100, stallTimeoutMs: STALL_MS } }));
  });

  afterEach(() => {
    expect(jest.getTimerCount()).toBe(0);
    jest.useRealTimers();
  });

  /** Time passes, and promises have their turn. */
  const pass = (ms: number): Promise<void> => jest.advanceTimersByTimeAsync(ms);

  /** A reader that has something to take, of its own or of others as well. */
  function enter(own: number, common?: Common, rooms?: Room[]): TestReader {
    const reader = new TestReader(rooms);
    unsent.enter(reader, own, common);
    return reader;
  }

  const leave = (...readers: TestReader[]): void => readers.forEach((reader) => unsent.leave(reader));

  /** What becomes of a request for room. */
  function ask(bytes: number, gone?: AbortSignal) {
    const asked: { room?: Room; error?: Error } = {};
    unsent.reserve(bytes, gone).then(
      (room) => (asked.room = room),
      (error: Error) => (asked.error = error),
    );
    return asked;
  }

  it('give room up to their bound, then in the order in which it was asked for', async () => {
    const [first, second, third] = [ask(60), ask(50), ask(10)];
    await pass(0);
    expect([first.room?.bytes, second.room, third.room]).toEqual([60, undefined, undefined]);
    first.room?.release();
    await pass(0);
    expect([second.room?.bytes, third.room?.bytes]).toEqual([50, 10]);
    second.room?.release();
    second.room?.release();
    expect(unsent.held).toBe(10);
    third.room?.release();
    expect(unsent.held).toBe(0);
  });

  it('give more than their bound to one alone', async () => {
    const large = ask(1_000);
    await pass(0);
    expect(large.room?.bytes).toBe(1_000);
    const next = ask(1);
    await pass(0);
    expect(next.room).toBeUndefined();
    large.room?.resize(50);
    await pass(0);
    expect(next.room?.bytes).toBe(1);
    large.room?.release();
    next.room?.release();
  });

  it('refuse who waits for longer than 15 s with an error that says so, over gRPC as RESOURCE_EXHAUSTED', async () => {
    const first = ask(100);
    const [second, third] = [ask(60), ask(1)];
    await pass(14_999);
    expect(second.error).toBeUndefined();
    await pass(1);
    expect(second.error).toMatchObject({ status: 8, message: expect.stringContaining('(100 bytes)') as string });
    expect(third.error).toMatchObject({ status: 8 });
    first.room?.release();
    expect(unsent.held).toBe(0);
  });

  it('forget who is gone while it waits', async () => {
    const first = ask(100);
    const gone = new AbortController();
    const [second, third] = [ask(100, gone.signal), ask(30)];
    gone.abort(new Error('gone'));
    await pass(0);
    expect(second.error?.message).toBe('gone');
    first.room?.release();
    await pass(0);
    expect(third.room?.bytes).toBe(30);
    third.room?.release();
  });

  it('cut off a reader that takes nothing for as long as the option says, and none that takes a little', async () => {
    const [idle, slow] = [enter(10), enter(10)];
    for (let at = 0; at < 59; at += 1) {
      await pass(1_000);
      slow.taken += 1;
    }
    expect(idle.wasCutOff).toBe(false);
    await pass(1_000);
    expect([idle.wasCutOff, slow.wasCutOff]).toEqual([true, false]);
    expect(unsent.held).toBe(10);
    leave(slow);
  });

  it('cut off those who stall for 5 s where others wait for room, longest first, and no more than it takes', async () => {
    const rooms = [ask(40), ask(40)];
    await pass(0);
    const longest = enter(0, undefined, [rooms[0]!.room!]);
    await pass(1_000);
    const shorter = enter(0, undefined, [rooms[1]!.room!]);
    const waits = ask(50);
    await pass(HURRIED_MS - 2_000);
    expect(longest.wasCutOff).toBe(false);
    await pass(1_000);
    expect([longest.wasCutOff, shorter.wasCutOff]).toEqual([true, false]);
    expect(waits.room?.bytes).toBe(50);
    waits.room?.release();
    rooms[1]?.room?.release();
    leave(shorter);
  });

  it('never exceed their bound by what readers leave behind: the longest idle are cut off at once', async () => {
    const readers = [];
    for (let at = 0; at < 10; at += 1) {
      readers.push(enter(10));
      await pass(10);
    }
    expect(unsent.held).toBe(100);
    const last = enter(25);
    expect(readers.map(({ wasCutOff }) => wasCutOff)).toEqual([true, true, true, ...Array<boolean>(7).fill(false)]);
    expect(unsent.held).toBe(95);
    leave(...readers, last);
  });

  it('count what several readers hold together once', () => {
    const key = {};
    const readers = Array.from({ length: 50 }, () => enter(1, { key, bytes: 40 }));
    expect(unsent.held).toBe(90);
    leave(...readers.slice(1));
    expect(unsent.held).toBe(41);
    leave(readers[0]!);
    expect(unsent.held).toBe(0);
  });

  it('blame nobody for the time that this process stood still', async () => {
    const reader = enter(10);
    await pass(1_000);
    const now = performance.now();
    const clock = jest.spyOn(performance, 'now').mockReturnValue(now + 10 * STALL_MS);
    unsent.look();
    expect(reader.wasCutOff).toBe(false);
    clock.mockRestore();
    leave(reader);
  });
});
