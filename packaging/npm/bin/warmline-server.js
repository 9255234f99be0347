#!/usr/bin/env node
import {spawn} from "node:child_process";
import {program} from "../index.js";

const child = spawn(program("warmline-server"), process.argv.slice(2), {stdio: "inherit"});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(signal === null ? code : 1));
