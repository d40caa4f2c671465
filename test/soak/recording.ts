/** Plain JSON, as the protocol writes it. */
export type Json = Record<string, unknown>;

/** What a client asks for. */
export type Operation = 'send' | 'stream' | 'subscribe' | 'get' | 'cancel' | 'pushConfig' | 'list';

/** Milliseconds since the epoch at the start of the run, plus a monotonic clock: no step of the wall clock is in it. */
export interface At {
  readonly at: number;
}

export interface RequestLine extends At {
  readonly kind: 'request';
  /** Names the call in all lines that belong to it. */
  readonly call: number;
  readonly operation: Operation;
  readonly replica: string;
  readonly transport: string;
  readonly user: string;
  readonly taskId?: string;
  readonly messageId?: string;
  readonly text?: string;
  /** Of the push receiver that comes with it. */
  readonly configId?: string;
}

export interface AnswerLine extends At {
  readonly kind: 'answer';
  readonly call: number;
  readonly task?: Json;
  readonly message?: Json;
  /** Ids and states that a listing showed. */
  readonly listed?: readonly { readonly taskId: string; readonly state: string }[];
}

/** One event of a stream: `task`, `statusUpdate`, `artifactUpdate` or `message`. */
export interface EventLine extends At {
  readonly kind: 'event';
  readonly call: number;
  readonly event: Json;
}

/** How a call or a stream was over: an error of the protocol, a broken connection, hung up by us, or in order. */
export interface EndLine extends At {
  readonly kind: 'end';
  readonly call: number;
  readonly how: 'finished' | 'hungUp' | 'refused' | 'broken';
  readonly error?: string;
}

/** One notification as a push receiver got it, and the status that it answered with. */
export interface PushLine extends At {
  readonly kind: 'push';
  readonly configId: string;
  readonly event: Json;
  readonly status: number;
}

/** Of every fault two: when it began, and when it was healed. */
export interface FaultLine extends At {
  readonly kind: 'fault';
  readonly number: number;
  readonly fault: string;
  readonly replica?: string;
  readonly phase: 'begins' | 'ends';
  readonly detail?: string;
}

/** A replica process that came to serve, or that ended. */
export interface ProcessLine extends At {
  readonly kind: 'process';
  readonly replica: string;
  readonly agent: string;
  /** Whether it runs abandoned turns again, or fails them. */
  readonly policy: string;
  readonly pid: number;
  readonly phase: 'serves' | 'ended';
}

/** Somebody was not scheduled from one time to the other: the event loop of a replica, or of the run itself. */
export interface LagLine extends At {
  readonly kind: 'lag';
  readonly who: string;
  readonly from: number;
  readonly to: number;
}

/** The database did not answer a plain question for so long. */
export interface OutageLine extends At {
  readonly kind: 'outage';
  readonly from: number;
  readonly to: number;
}

/** How many sessions each replica had with the database: written down while a table was locked. */
export interface SessionsLine extends At {
  readonly kind: 'sessions';
  readonly sessions: Readonly<Record<string, number>>;
}

/** A replica was asked, after a fault of the database, until it did its work again; without `to` it was not seen to. */
export interface ServiceLine extends At {
  readonly kind: 'service';
  readonly replica: string;
  readonly from: number;
  readonly to?: number;
}

export type Line =
  | RequestLine
  | AnswerLine
  | EventLine
  | EndLine
  | PushLine
  | FaultLine
  | ProcessLine
  | LagLine
  | OutageLine
  | SessionsLine
  | ServiceLine;

/** What a line is before it gets its time. */
export type Untimed<L extends Line = Line> = L extends Line ? Omit<L, 'at'> : never;
