void @name@_close(struct @name@ *model)
{
    if (model == NULL || model->arena == NULL)
        return;
    model->arena = NULL;
    model->team.state = @NAME@_TEAM_ENDS;
    wait_for_all(&model->team);
    join_workers(&model->team, @NAME@_THREADS - 1);
}
