/** The server has not started; its log is in the message. */
export class WarmlineError extends Error {}

export type Settings = Record<string, string | number>;
export interface StartOptions {
  /** Further words of the command line. */
  options?: (string | number)[];
  /** In milliseconds. */
  startTimeout?: number;
}

/** The path of a program of this package, or of the one that the environment variable WARMLINE_SERVER names. */
export function program(name?: string): string;

export class Warmline implements AsyncDisposable {
  /** `settings` are options of the server, with capitals for hyphens: `{maxmemoryPolicy: "allkeys-lru"}`. */
  constructor(settings?: Settings, more?: StartOptions);
  readonly port: number | null;
  readonly directory: string | null;
  /** redis://127.0.0.1:PORT, with the password of `requirepass`. */
  get url(): string;
  /** What the server has logged. */
  get log(): string;
  start(): Promise<this>;
  /** Ends the server, and removes its directory. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Runs `body` with the URL of a server that ends with it. */
export function withWarmline<T>(
  body: (url: string, server: Warmline) => T | Promise<T>,
  settings?: Settings,
  more?: StartOptions,
): Promise<T>;
