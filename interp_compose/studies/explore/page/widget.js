/* In a notebook: states are a trait of the widget, and each question and its answer a message. */

function render({ model, el }) {
  const waiting = new Map();
  let last = 0;
  const own = Math.random().toString(36).slice(2); // other views of the widget ask as well
  const answered = (message) => {
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  };
  model.on("msg:custom", answered);
  const explorer = new Explorer(el.appendChild(document.createElement("div")), {
    about: model.get("_about"),
    state: model.get("_state"),
    wait: 250,
    ask: (request) =>
      new Promise((resolve) => {
        const id = `${own} ${(last += 1)}`;
        waiting.set(id, resolve);
        model.send({ id, ...request });
      }),
    tell: (state) => {
      model.set("_state", state);
      model.save_changes();
    },
  });
  const changed = () => explorer.show(model.get("_state"));
  model.on("change:_state", changed);
  return () => {
    model.off("msg:custom", answered);
    model.off("change:_state", changed);
  };
}

export default { render };
