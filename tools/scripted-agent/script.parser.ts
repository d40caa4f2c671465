/** One command of a script, its arguments checked. */
export type Command =
  | { readonly name: 'say' | 'ask' | 'throw' | 'reply' | 'echo'; readonly text: string }
  | { readonly name: 'work' | 'deaf' | 'block'; readonly seconds: number }
  | { readonly name: 'stream'; readonly chunks: number; readonly intervalMs: number; readonly bytes: number }
  | { readonly name: 'auth'; readonly seconds?: number }
  | { readonly name: 'charge'; readonly amount: number; readonly mode: ChargeMode; readonly takesMs: number }
  | { readonly name: 'transfer'; readonly amount: number; readonly takesMs: number }
  | { readonly name: 'exit' };

/** What may be done about a charge whose outcome is not known. */
export type ChargeMode = 'never' | 'idempotent' | 'reconcile';

/** A command whose arguments cannot be used. The message is one line: command, argument, rule, value. */
export class ScriptError extends Error {
  override readonly name = 'ScriptError';
}

/** What the text of a number must look like, and how that is said. */
interface NumberForm {
  readonly pattern: RegExp;
  readonly says: string;
}

const DECIMAL: NumberForm = { pattern: /^\d+(\.\d+)?$/, says: 'a number from 0' };
const WHOLE: NumberForm = { pattern: /^\d+$/, says: 'a whole number from 0' };
const WHOLE_FROM_1: NumberForm = { pattern: /^[1-9]\d*$/, says: 'a whole number from 1' };

const DAY_SECONDS = 86_400;
const DAY_MS = DAY_SECONDS * 1000;

const CHARGE_MODES: readonly ChargeMode[] = ['never', 'idempotent', 'reconcile'];

const PARSERS: Readonly<Record<string, (args: string) => Command>> = {
  say: (args) => ({ name: 'say', text: readText('say TEXT', args) }),
  ask: (args) => ({ name: 'ask', text: readText('ask QUESTION', args) }),
  throw: (args) => ({ name: 'throw', text: readText('throw TEXT', args) }),
  reply: (args) => ({ name: 'reply', text: readText('reply TEXT', args) }),
  work: (args) => ({ name: 'work', seconds: readSeconds('work SECONDS', args) }),
  deaf: (args) => ({ name: 'deaf', seconds: readSeconds('deaf SECONDS', args) }),
  block: (args) => ({ name: 'block', seconds: readSeconds('block SECONDS', args) }),
  stream: readStream,
  auth: readAuth,
  charge: readCharge,
  transfer: readTransfer,
  exit: (args) => readNothing('exit', args),
};

/**
 * Reads a message as a script: one command a line, blank lines skipped. A line that is no command is said; a message
 * without any command is echoed as a whole.
 *
 * @throws {ScriptError} for the first command whose arguments cannot be used, before anything has run.
 */
export function parseScript(text: string): Command[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (!lines.some((line) => parserOf(line) !== undefined)) return [{ name: 'echo', text }];
  return lines.map((line) => parserOf(line)?.(argumentsOf(line)) ?? { name: 'say', text: line.trim() });
}

function parserOf(line: string): ((args: string) => Command) | undefined {
  const word = /^\s*([a-z]+)(?!\S)/.exec(line)?.[1];
  return word !== undefined && Object.hasOwn(PARSERS, word) ? PARSERS[word] : undefined;
}

function argumentsOf(line: string): string {
  return line.trim().replace(/^\S+\s*/, '');
}

function readStream(args: string): Command {
  const usage = 'stream N MS [BYTES]';
  const [chunks = '', intervalMs = '', bytes = '0', ...rest] = args.split(/\s+/);
  if (rest.length > 0) throw new ScriptError(`${usage}: takes three numbers at most, got ${JSON.stringify(args)}`);
  return {
    name: 'stream',
    chunks: readNumber(usage, 'N', chunks, 1_000_000, WHOLE_FROM_1),
    intervalMs: readNumber(usage, 'MS', intervalMs, 60_000, WHOLE),
    bytes: readNumber(usage, 'BYTES', bytes, 1_000_000, WHOLE),
  };
}

function readAuth(args: string): Command {
  return args === '' ? { name: 'auth' } : { name: 'auth', seconds: readSeconds('auth [SECONDS]', args) };
}

function readCharge(args: string): Command {
  const usage = 'charge N MODE [MS]';
  const [amount = '', word = '', takesMs = '0', ...rest] = args.split(/\s+/);
  if (rest.length > 0) throw new ScriptError(`${usage}: takes three arguments at most, got ${JSON.stringify(args)}`);
  const mode = CHARGE_MODES.find((name) => name === word);
  const charged = readNumber(usage, 'N', amount, 1_000_000, WHOLE_FROM_1);
  if (mode === undefined) {
    throw new ScriptError(`${usage}: MODE must be never, idempotent or reconcile, got ${JSON.stringify(word)}`);
  }
  return { name: 'charge', amount: charged, mode, takesMs: readNumber(usage, 'MS', takesMs, DAY_MS, WHOLE) };
}

function readTransfer(args: string): Command {
  const usage = 'transfer N [MS]';
  const [amount = '', takesMs = '0', ...rest] = args.split(/\s+/);
  if (rest.length > 0) throw new ScriptError(`${usage}: takes two numbers at most, got ${JSON.stringify(args)}`);
  return {
    name: 'transfer',
    amount: readNumber(usage, 'N', amount, 1_000_000, WHOLE_FROM_1),
    takesMs: readNumber(usage, 'MS', takesMs, DAY_MS, WHOLE),
  };
}

function readSeconds(usage: string, args: string): number {
  return readNumber(usage, 'SECONDS', args, DAY_SECONDS, DECIMAL);
}

function readNumber(usage: string, argument: string, value: string, max: number, form: NumberForm): number {
  const number = form.pattern.test(value) ? Number(value) : Number.NaN;
  if (number <= max) return number;
  throw new ScriptError(`${usage}: ${argument} must be ${form.says} to ${max}, got ${JSON.stringify(value)}`);
}

function readText(usage: string, args: string): string {
  if (args !== '') return args;
  throw new ScriptError(`${usage}: says nothing`);
}

function readNothing(name: 'exit', args: string): Command {
  if (args === '') return { name };
  throw new ScriptError(`${name}: takes no argument, got ${JSON.stringify(args)}`);
}
