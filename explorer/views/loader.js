// All that a notebook holds of the explorer's widget. The module itself is asked for at the kernel:
// no copy of it is saved with a notebook, and an old one shows the explorer that is installed.

const PATIENCE_MILLISECONDS = 3000;
let module = null;

function ask(model) {
  return new Promise((resolve) => {
    const receive = (message) => {
      if (message?.kind !== "module") return;
      model.off("msg:custom", receive);
      const blob = new Blob([message.text], {type: "text/javascript"});
      resolve(import(URL.createObjectURL(blob)));
    };
    model.on("msg:custom", receive);
    model.send({kind: "module"});
  });
}

async function render({model, el}) {
  const words = document.createElement("p");
  words.textContent = "The explorer needs its kernel: run this cell again.";
  const timer = setTimeout(() => el.append(words), PATIENCE_MILLISECONDS);
  module ??= ask(model);
  const {default: explorer} = await module;
  clearTimeout(timer);
  words.remove();
  return explorer.render({model, el});
}

export default {render};
