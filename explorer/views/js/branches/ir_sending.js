// IR text on its way to who compiles: the app's worker, or the notebook's kernel.

const listening = new WeakMap(); // of hosts: what takes the kernel's next answer

// The complete text of the program behind a pass.
export async function irText(app, pass) {
  if (!app.session) return (await askKernel(app, {kind: "text", after: pass})).text;
  const {base64} = await app.files.ask({what: "ir", after: pass});
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

// {error, line}: why it could not be compiled, and where in the text; error is "" where it was
export function sendIr(app, pass, text) {
  if (app.session) return app.session.editIr(pass, text);
  return askKernel(app, {kind: "change", what: "edit", after: pass, text});
}

// A kernel answers one question after the other.
function askKernel({host}, message) {
  if (!listening.has(host)) {
    host.receive((answer) => {
      if (answer?.kind === "changed") listening.get(host)?.(answer);
    });
  }
  return new Promise((resolve, reject) => {
    listening.set(host, (answer) => {
      if (answer.of !== message.kind) return;
      if (answer.error && message.kind === "text") reject(new Error(answer.error));
      else resolve(answer);
    });
    host.send(message);
  });
}
